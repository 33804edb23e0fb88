//go:build linux

package container_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pinfold/container/conformance"
	"pinfold/plan"
)

// TestWrap is the ordinary launch: streams, environment, files and codes.
func TestWrap(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		got := p.wrap(map[string]any{"env": map[string]any{"set": map[string]string{"A": "b c"}}}, `echo "$A"; echo err >&2; pwd; echo made >f; id -u; echo $$; exit 7`)
		want := "b c\n" + p.workspace + "\n" + itoa(l.runsAs()) + "\n"
		if got.code != 7 || got.stderr != "err\n" || !strings.HasPrefix(got.stdout, want) {
			t.Errorf("%v\nwanted %q first", got, want)
		}
		if text, err := os.ReadFile(filepath.Join(p.workspace, "f")); err != nil || string(text) != "made\n" {
			t.Errorf("the file says %q, %v", text, err)
		}
		for script, code := range map[string]int{"true": 0, "exit 255": 255, "kill -KILL $$": 137, "kill -TERM $$": 143, "exec /no/such": 127, "exec /etc": 126} {
			if got := p.wrap(nil, script); got.code != code {
				t.Errorf("%s: %v", script, got)
			}
		}
		for argv, code := range map[string]int{"/no/such/program": 127, "/etc": 126, "/bin/true": 0} {
			if got := p.call("wrap", "--policy", p.policy(nil), "--", argv); got.code != code {
				t.Errorf("%s: %v", argv, got)
			}
		}
	})
}

// runsAs is who the command is.
func (l *lab) runsAs() int {
	if l.name == "podman-rootless" {
		return l.uid
	}
	return os.Getuid()
}

// resultOf is the result of a launch.
func (p *pen) resultOf(more map[string]any, script string, flags ...string) (plan.Result, answer) {
	p.t.Helper()
	file := filepath.Join(filepath.Dir(p.home), "result")
	_ = os.Remove(file) // of the one before
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		p.t.Fatal(err)
	}
	p.give(file)
	a := p.wrap(more, script, append(flags, "--result", file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	var r plan.Result
	if err := json.Unmarshal(text, &r); err != nil {
		p.t.Fatalf("%q: %v\n%v", text, err, a)
	}
	return r, a
}

// TestResult is all that a caller is told of an end.
func TestResult(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r, a := p.resultOf(nil, `echo out; printf '\377\376' >&2; exit 3`, "--capture", "--execution", "e", "--segment", "s")
		if r.Exit != 3 || r.Reason != "exited" || r.Tier != "container" || r.Backend != l.engine || r.Owner.Segment != "s" {
			t.Errorf("%+v\n%v", r, a)
		}
		if r.Stdout == nil || r.Stdout.Data != "out\n" || r.Stderr == nil || r.Stderr.Encoding != "base64" || r.Stderr.Data != "//4=" {
			t.Errorf("captured %+v, %+v", r.Stdout, r.Stderr)
		}
		if r.Usage == nil || r.Usage.CPUMS <= 0 && l.name != "podman-rootless" {
			t.Errorf("usage %+v", r.Usage)
		}
		// The timeout counts from the launch's beginning.
		r, a = p.resultOf(nil, `trap '' TERM; while :; do sleep 0.1; done`, "--timeout", "5s", "--grace", "500ms")
		if r.Exit != 124 || r.Reason != "timeout" || r.Stop != "kill" || a.code != 124 {
			t.Errorf("%+v\n%v", r, a)
		}
		if r, a = p.resultOf(nil, `kill -SEGV $$`); r.Signal != "SIGSEGV" || r.Reason != "signaled" || r.Exit != 139 {
			t.Errorf("%+v\n%v", r, a)
		}
		if r, a = p.resultOf(map[string]any{"write": []string{"/no/such/place"}}, `true`); r.Exit != 125 || r.Reason != "refused" || r.Refusal == nil {
			t.Errorf("%+v\n%v", r, a)
		}
	})
}

// TestWhoseSIGTERM: the command's own signals to pid 1 reach it and say
// nothing; the engine's make the end an interrupted one, whatever its code.
func TestWhoseSIGTERM(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		if r, a := p.resultOf(nil, `trap 'exit 4' TERM; kill -TERM 1; while :; do sleep 0.1; done`); r.Exit != 4 || r.Reason != "exited" {
			t.Errorf("its own: %+v\n%v", r, a)
		}
		r := p.start(nil, `trap 'exit 0' TERM; while :; do sleep 0.1; done`)
		if err := p.e.Signal(t.Context(), refOf(r.stored().Container), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 0 || r.stored().Exit.Reason != "interrupted" {
			t.Errorf("the engine's: exit %d, %+v", code, r.stored().Exit)
		}
		r = p.start(nil, `trap 'exit 6' TERM; while :; do sleep 0.1; done`)
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 6 || r.stored().Exit.Reason != "exited" {
			t.Errorf("pinfold's: exit %d, %+v", code, r.stored().Exit)
		}
		// That of another pinfold has been asked for as well, and other signals
		// reach the command.
		r = p.start(nil, `trap 'exit 7' TERM; trap ': >hup' HUP; while :; do sleep 0.1; done`)
		if got := p.call("signal", "--record", r.record, "HUP"); got.code != 0 {
			t.Errorf("%v", got)
		}
		p.until("SIGHUP has come", func() bool {
			_, err := os.Stat(filepath.Join(p.workspace, "hup"))
			return err == nil
		})
		if got := p.call("signal", "--record", r.record, "TERM"); got.code != 0 {
			t.Errorf("%v", got)
		}
		if code := r.wait(); code != 7 || r.stored().Exit.Reason != "exited" {
			t.Errorf("another pinfold's: exit %d, %+v", code, r.stored().Exit)
		}
	})
}

// TestOddImages: no shell, and an entry point, a user, a directory and a
// volume that mean nothing here.
func TestOddImages(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		odd := shellImage(t)
		odd.Name = "pinfold-test/odd:1"
		odd.Files = map[string]conformance.File{"odd/busybox": odd.Files["bin/busybox"]}
		odd.Config.Entrypoint, odd.Config.Cmd, odd.Config.User, odd.Config.WorkingDir = []string{"/no/such"}, []string{"x"}, "4711:4711", "/odd/place"
		odd.Config.Env = []string{"FROM_IMAGE=yes"}
		image := l.load(t, p.e, odd)
		policy := p.policy(map[string]any{"container": map[string]any{"runtime": l.engine, "image": image}})
		if got := p.call("wrap", "--quiet", "--policy", policy, "--", "/odd/busybox", "env"); got.code != 0 || !strings.Contains(got.stdout, "FROM_IMAGE=yes\n") || !strings.Contains(got.stdout, "PWD="+p.workspace+"\n") {
			t.Errorf("%v", got)
		}
		if got := p.call("wrap", "--quiet", "--policy", policy, "--", "/odd/busybox", "id", "-u"); got.stdout != itoa(l.runsAs())+"\n" {
			t.Errorf("%v", got)
		}
	})
}

// TestDisabled: the switch runs the process tier, says so, and always wins.
func TestDisabled(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.env = append(p.env, "PINFOLD_DISABLE_CONTAINER=1")
		got := p.call("plan", "--policy", p.policy(nil), "--json", "--", "/bin/true")
		if !strings.Contains(got.stdout, `"backend":"bwrap"`) || strings.Count(got.stderr, "PINFOLD_DISABLE_CONTAINER") != 1 {
			t.Errorf("%v", got)
		}
	})
}

// TestNoEngineIsAsked: a launch that asks for no container leaves engines
// alone, and so does one that mustn't have one.
func TestNoEngineIsAsked(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		name := filepath.Join(p.home, "engine.sock")
		s, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		p.give(name)
		var calls atomic.Int64
		go func() {
			for {
				c, err := s.Accept()
				if err != nil {
					return
				}
				calls.Add(1)
				c.Close()
			}
		}()
		defer s.Close()
		p.env = append(p.env, "DOCKER_HOST=unix://"+name, "CONTAINER_HOST=unix://"+name)
		launch := []string{"wrap", "--quiet", "--workspace", p.workspace, "--", "/bin/true"}
		if got := p.call(launch...); got.code != 0 || calls.Load() != 0 {
			t.Errorf("no container: %d calls, %v", calls.Load(), got)
		}
		asks := append([]string{"wrap", "--tier", "container"}, launch[1:]...)
		if got := p.call(asks...); got.code != 125 || calls.Load() == 0 || !strings.Contains(got.stderr, "PINFOLD_DISABLE_CONTAINER=1") {
			t.Errorf("control: %d calls, %v", calls.Load(), got)
		}
		before := calls.Load()
		p.env = append(p.env, "PINFOLD_DISABLE_CONTAINER=1")
		if got := p.call(asks...); got.code != 0 || calls.Load() != before {
			t.Errorf("disabled: %d calls, %v", calls.Load()-before, got)
		}
	})
}

// TestNothingOutlivesTheCommand: what forked away ends with it, also what
// minds no signal and when it is the timeout that ends all.
func TestNothingOutlivesTheCommand(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		left := fmt.Sprint(1_000_000_000 + time.Now().UnixNano()%1_000_000_000)
		away := `(setsid sh -c 'trap "" TERM HUP; : >away; sleep ` + left + `; true' &); until [ -e away ]; do sleep 0.05; done; rm away; echo away; `
		for end, code := range map[string]int{"exit 5": 5, "trap '' TERM; while :; do sleep 1; done": 124} {
			got := p.wrap(nil, away+end, "--timeout", "10s", "--grace", "300ms")
			if got.code != code || got.stdout != "away\n" {
				t.Errorf("%s: %v", end, got)
			}
			files, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), "sleep\x00"+left) {
					t.Errorf("%s: %s is there still", end, f)
				}
			}
		}
	})
}
