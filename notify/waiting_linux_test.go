package notify_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed testdata/waiting.py
var waiting string

// python becomes the interpreter, which leaves signals as one asks: Go's own
// handlers all have calls made anew.
func python(args []string) error {
	argv := append([]string{"python3", "-c", waiting}, args...)
	return unix.Exec("/usr/bin/python3", argv, os.Environ())
}

// Signals do to a connect that waits what they do without a boundary.
func TestSignalsWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"alarm": "heard", "threads": "heard", "bounded": "heard", "blocked": "EAGAIN", "ignored": "EAGAIN",
		"child_ends": "EAGAIN", "child_ends_with_threads": "EAGAIN", "child_heard": "heard",
		"terminated": "signal 15", "terminated_later": "signal 15", "dumped": "signal 3",
		"restarted": "exit 0", "stopped": "stopped, exit 0", "stopped_with_threads": "stopped, exit 0",
		"not_connected": "heard, ENOTCONN", "tcp_goes_on": "heard, EALREADY, True",
		"only_one": "connected", "storm": "connected", "thread": "handled, connected",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, args := "python", []string{name}
			if name == "storm" || name == "thread" {
				script, args = "signalled", []string{name}
			}
			control := newSandbox(t)
			if got := results(control.runFree(t, script, args...))[name]; got != want {
				t.Errorf("without a boundary: %q, wanted %q", got, want)
			}
			s := newSandbox(t)
			s.start(t, script, args...)
			// One that no signal gets out of its call waits for ever.
			defer time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() }).Stop()
			if got := results(s.finish(t))[name]; got != want {
				t.Errorf("inside: %q, wanted %q", got, want)
			}
		})
	}
}

// runFree runs a script without an engine.
func (s *sandbox) runFree(t testing.TB, script string, args ...string) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, append([]string{script}, args...)...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), stageVariable+"="+stageScript)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the script: %v: %s", err, out)
	}
	return string(out)
}

// signalled has one thread of many wait in a connect, and gives it signals of
// the runtime's own (SIGURG, with which it preempts), or one to handle.
func signalled(args []string) error {
	l, err := listenHere("full", 0)
	if err != nil {
		return err
	}
	if err := connectUnix("full"); err != nil {
		return err
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGUSR1)
	tid, done := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		done <- connectUnix("full")
	}()
	outcome, thread := "", <-tid
	<-time.After(300 * time.Millisecond)
	if args[0] == "storm" {
		for range 200 {
			if err := unix.Tgkill(os.Getpid(), thread, unix.SIGURG); err != nil {
				return err
			}
			<-time.After(3 * time.Millisecond)
		}
	} else {
		if err := unix.Tgkill(os.Getpid(), thread, unix.SIGUSR1); err != nil {
			return err
		}
		select {
		case <-heard:
			outcome = "handled, "
		case err := <-done:
			return fmt.Errorf("the call ended by itself: %w", err)
		case <-time.After(2 * time.Second):
			outcome = "not handled, "
		}
	}
	if _, _, err := unix.Accept(l); err != nil {
		return err
	}
	fmt.Printf("%s: %s%s\n", args[0], outcome, errnoName(<-done))
	return nil
}
