package bwrap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// echo is an egress that answers each connection with a line.
type echo struct {
	served chan string
	closed bool
}

func (e *echo) Serve(_ context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "from outside\n")
		c.Close()
		e.served <- c.LocalAddr().String()
	}
}

func (e *echo) Close() error {
	e.closed = true
	return nil
}

// listening is a launch with a listener at an address, and a script that
// reads one line from it.
func listening(t *testing.T, address string) *bwrap.Launch {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	in := bwrap.Input{Argv: []string{"bash", "-c", fmt.Sprintf("exec 9<>/dev/tcp/%s/%s && cat <&9", host, port)}}
	l := realLaunch(t, in)
	l.Setup.Listen = []string{address}
	return l
}

// A connection inside is accepted outside, in no namespace of ours, and from
// the command's very first instruction on.
func TestListenerIsServed(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:3128", "[::1]:3129"} {
		e := &echo{served: make(chan string, 1)}
		o := bwrap.StartOptions{Egress: func() (bwrap.Egress, error) { return e, nil }}
		r, err := startLaunch(t, t.Context(), listening(t, address), o, "")
		must(t, err)
		if got := r.wait(t); got.out != "from outside\n" || got.exit.Code != 0 {
			t.Errorf("%s: got %+v", address, got)
		}
		if at := <-e.served; at != address || !e.closed {
			t.Errorf("served at %s, closed %v", at, e.closed)
		}
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s can be reached from outside", address)
		}
	}
}

func TestEgressFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	o := bwrap.StartOptions{Egress: func() (bwrap.Egress, error) { return nil, broken }}
	r, err := startLaunch(t, t.Context(), listening(t, "127.0.0.1:3128"), o, "")
	if !errors.Is(err, broken) || !errors.Is(err, policy.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if out := r.out.all(); out != "" {
		t.Errorf("it ran: %q", out)
	}
	if _, err := startLaunch(t, t.Context(), listening(t, "127.0.0.1:3128"), bwrap.StartOptions{}, ""); err == nil {
		t.Error("nobody serves, and it runs")
	}
}

func TestFailureErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    wire.Failure
		code string // of a refusal
		exit int    // else
	}{
		{wire.Failure{Step: wire.StepCheck, Path: "/w", Text: "differs"}, "boundary_mismatch", 0},
		{wire.Failure{Step: wire.StepDir, Path: "/w", Errno: int(syscall.EACCES)}, "chdir_failed", 0},
		{wire.Failure{Step: wire.StepLandlock}, "landlock_failed", 0},
		{wire.Failure{Step: wire.StepPrivileges}, "privileges_left", 0},
		{wire.Failure{Step: "unheard of"}, "stub_failed", 0},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.ENOENT)}, "", 127},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.ENOTDIR)}, "", 127},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.EACCES)}, "", 126},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.ENOEXEC)}, "", 126},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.EISDIR)}, "", 126},
		{wire.Failure{Step: wire.StepExec, Errno: int(syscall.E2BIG)}, "", 126},
		{wire.Failure{Step: wire.StepExec}, "", 126},
	} {
		err := bwrap.FailureError(&c.f)
		if r, ok := errors.AsType[*policy.Refusal](err); ok != (c.code != "") || ok && (r.Code != c.code || r.Fix == "" || r.Subject != c.f.Path) {
			t.Errorf("%+v: %v", c.f, err)
		}
		if e, ok := errors.AsType[*bwrap.NotRunError](err); ok != (c.exit != 0) || ok && e.ExitCode() != c.exit {
			t.Errorf("%+v: %v", c.f, err)
		}
		if c.f.Errno != 0 && !errors.Is(err, syscall.Errno(c.f.Errno)) {
			t.Errorf("%+v: %v has lost the errno", c.f, err)
		}
	}
}

// What others said can't rewrite the screen, nor fill it.
func TestFirstLines(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "",
		"\n\n":                         "",
		"bwrap: no\nmore\n":            `"bwrap: no; more"`,
		"a\x1b[2Jb\x07\u202e":          `"a[2Jb"`,
		strings.Repeat("ä", 200) + "x": `"` + strings.Repeat("ä", 150) + `…"`,
	} {
		if got := bwrap.FirstLines(in); got != want {
			t.Errorf("%q: got %s, wanted %s", in, got, want)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{1}, []byte{}, 0)
	f.Add([]byte{}, unix.UnixCredentials(&unix.Ucred{Pid: 1}), 0)
	f.Add([]byte{4}, []byte{1, 2, 3}, unix.MSG_CTRUNC)
	f.Fuzz(func(t *testing.T, body, oob []byte, flags int) {
		// Descriptors in it would be closed, and none of these are ours.
		if list, err := unix.ParseSocketControlMessage(oob); err == nil {
			for _, m := range list {
				if m.Header.Type == unix.SCM_RIGHTS {
					return
				}
			}
		}
		if bwrap.Unpack(body, oob, flags) == nil && (len(body) == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
			t.Error("a message that is empty or cut was taken")
		}
	})
}

func FuzzProc(f *testing.F) {
	f.Add("1 (a) b) S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2", "NSpid:\t9\t1\nSeccomp:\t2\nSeccomp_filters:\t1\nSigIgn:\t0000000000000001\n")
	f.Add("", "Seccomp_filters:\tx\n")
	f.Fuzz(func(_ *testing.T, stat, status string) {
		_ = bwrap.ParseStat([]byte(stat))
		_ = bwrap.ParseStatus(status)
	})
}

// A run gives back every descriptor that it took, and every goroutine.
func TestRunLeaks(t *testing.T) {
	l := listening(t, "127.0.0.1:3128")
	once := func() {
		e := &echo{served: make(chan string, 1)}
		r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{Egress: func() (bwrap.Egress, error) { return e, nil }}, "")
		must(t, err)
		r.wait(t)
		broken := *l
		broken.Setup.Argv = []string{"/nonexistent"}
		if _, err := startLaunch(t, t.Context(), &broken, bwrap.StartOptions{Egress: func() (bwrap.Egress, error) { return e, nil }}, ""); err == nil {
			t.Error("it ran")
		}
	}
	once() // whatever the runtime opens for itself is open now
	before := descriptors(t)
	for range 5 {
		once()
	}
	after := 0
	for range 200 { // the readers of the pipes close their ends by and by
		if after = descriptors(t); after <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d descriptors before, %d after five runs", before, after)
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}
