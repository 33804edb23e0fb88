package bwrap

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

const stopHelper = "PINFOLD_STOP_HELPER"

// TestStopHelperProcess is no test: it is the program that
// TestContinuedOnce starts.
func TestStopHelperProcess(t *testing.T) {
	if os.Getenv(stopHelper) == "" {
		return
	}
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH)
	stopSelf(false)
	// The kernel and the runtime deliver a lower number first: what had come
	// before would be here before this one, too.
	for _, sig := range []unix.Signal{unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP} {
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if got := <-ch; got != sig {
			t.Fatalf("got %v, wanted %v", got, sig)
		}
	}
}

// A stop ends with stopSelf's return, and not a second time with a signal,
// which would come late: a command that was stopped again by then would be
// continued. Afterwards signals come as before.
func TestContinuedOnce(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStopHelperProcess$")
	cmd.Env = append(os.Environ(), stopHelper+"=1")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // this process watches over it, so it isn't orphaned
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if info.Code != cldStopped {
		t.Errorf("it wasn't stopped: %+v", info)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}

// cldStopped is CLD_STOPPED, sigaction(2).
const cldStopped = 5
