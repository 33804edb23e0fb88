package bwrap_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// TestMain makes this program a stub of ill will when it finds itself in the
// stub's place.
func TestMain(m *testing.M) {
	if os.Args[0] == bwrap.StubPath {
		hostileStub()
		os.Exit(9)
	}
	os.Exit(m.Run())
}

// hostileStub does what its first argument says instead of its work.
func hostileStub() {
	b := make([]byte, wire.MaxSetup)
	n, _ := unix.Pread(wire.SetupFD, b, 0)
	s, err := wire.DecodeSetup(b[:n])
	if err != nil {
		return
	}
	send := func(b []byte, fds ...int) { _ = unix.Sendmsg(wire.ControlFD, b, unix.UnixRights(fds...), nil, 0) }
	hello := wire.EncodeHello(wire.Greeting{Version: wire.Version})
	switch s.Argv[0] {
	case "silent":
		return
	case "garbage":
		send([]byte("\xff\xfe\xfd"))
	case "empty":
		send(nil)
	case "long":
		send([]byte("\x01" + strings.Repeat("x", 100<<10)))
	case "descriptors":
		send(hello, 0, 1, 2, 0, 1, 2)
	case "many descriptors":
		fds := make([]int, 250)
		send(hello, fds...)
	case "unasked listener":
		send(wire.EncodeHello(wire.Greeting{Version: wire.Version, Listeners: 1}), 1)
	case "early ready":
		send(wire.EncodeSignal(wire.Ready))
	case "early end":
		send(hello)
		return
	case "long failure":
		send(wire.EncodeFailure(&wire.Failure{Step: wire.StepCheck, Path: strings.Repeat("p", 9999), Text: strings.Repeat("\x1b[2J", 9999)}))
	case "two readies":
		send(hello)
		await()
		send(wire.EncodeSignal(wire.Ready))
		send(wire.EncodeSignal(wire.Ready))
	case "started without terminal":
		send(hello)
		await()
		send(wire.EncodeSignal(wire.Ready))
		send(wire.EncodeSignal(wire.Started), 1)
	case "words":
		_, _ = os.Stderr.WriteString("bwrap: some\x1b[31m words\n")
		return
	case "flood":
		for range 1 << 14 {
			_, _ = os.Stderr.WriteString(strings.Repeat("flood ", 1000))
		}
		return
	}
	time.Sleep(time.Minute) // it is not this side that ends the launch
}

func await() { _, _ = unix.Read(wire.ControlFD, make([]byte, 16)) }

// Whatever a stub says that it shouldn't refuses the launch, at once, and
// nothing is left of it.
func TestHostileStub(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	must(t, err)
	for argv, want := range map[string]struct{ code, why string }{
		"silent":                   {"bwrap_failed", ""},
		"garbage":                  {"stub_failed", "greeting"},
		"empty":                    {"stub_failed", ""},
		"long":                     {"stub_failed", ""},
		"descriptors":              {"stub_failed", "greeting"},
		"many descriptors":         {"stub_failed", ""},
		"unasked listener":         {"stub_failed", "greeting"},
		"early ready":              {"stub_failed", "greeting"},
		"early end":                {"stub_failed", ""},
		"long failure":             {"boundary_mismatch", ""},
		"two readies":              {"stub_failed", "shouldn't"},
		"started without terminal": {"stub_failed", "shouldn't"},
		"words":                    {"bwrap_failed", `"bwrap: some[31m words"`},
		"flood":                    {"bwrap_failed", "flood"},
	} {
		t.Run(argv, func(t *testing.T) {
			t.Parallel()
			m := realMachine(t)
			m.RunsMemfd = false
			l := launchOn(t, m, bwrap.Input{Argv: []string{argv}})
			i := slices.Index(l.Args, bwrap.StubPath) // after --perms 0555 --ro-bind-data {fd:stub}
			l.Args = slices.Replace(l.Args, i-4, i, "--ro-bind", exe)
			l.Data = slices.DeleteFunc(l.Data, func(d bwrap.Datum) bool { return d.Name == bwrap.DataStub })
			refuseHostile(t, l, want.code, want.why)
		})
	}
}

func refuseHostile(t *testing.T, l *bwrap.Launch, code, why string) {
	t.Helper()
	begin := time.Now()
	r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, "")
	f, ok := errors.AsType[*policy.Refusal](err)
	if !ok || f.Code != code || !strings.Contains(f.Why, why) || len(f.Why) > 10000 || strings.Contains(f.Why, "\x1b") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	if out := r.out.all() + r.err.all(); out != "" {
		t.Errorf("said %q", out)
	}
}
