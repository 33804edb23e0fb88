package bwrap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const stopHelper = "PINFOLD_STOP_HELPER"

// TestStopHelperProcess is no test: it is the programs that the tests below
// start, since signals are a whole process's.
func TestStopHelperProcess(t *testing.T) {
	ch := make(chan os.Signal, 4)
	what := os.Getenv(stopHelper)
	if what == "" {
		return
	}
	signal.Notify(ch, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH)
	noteOrder()
	switch what {
	case "once":
		stopOnce(t, ch)
	case "overtaken":
		stopLate(t, ch)
	case "order":
		takeBoth(t)
	}
}

// stopHelperCommand is a process in a group of its own, which this one
// watches over, so it isn't orphaned.
func stopHelperCommand(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStopHelperProcess$")
	cmd.Env = append(os.Environ(), stopHelper+"="+what)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return cmd
}

// change waits until a process has stopped or ended, and says which.
func change(t *testing.T, cmd *exec.Cmd) int32 {
	t.Helper()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	return info.Code
}

// cldStopped is CLD_STOPPED, sigaction(2).
const cldStopped = 5

func stopOnce(t *testing.T, ch chan os.Signal) {
	newStopper(nil).stop()
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

// A stop ends with stop's return, and not a second time with a signal,
// which would come late: a command that was stopped again by then would be
// continued. Afterwards signals come as before.
func TestContinuedOnce(t *testing.T) {
	t.Parallel()
	cmd := stopHelperCommand(t, "once")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := change(t, cmd); code != cldStopped {
		t.Errorf("it wasn't stopped: %d", code)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}

func stopLate(t *testing.T, ch chan os.Signal) {
	stopper := newStopper(nil)
	if got := <-ch; got != unix.SIGTSTP {
		t.Fatalf("got %v", got)
	}
	fmt.Println("told")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // it has been continued
		t.Fatal(err)
	}
	stopper.stop()
}

// A process that is continued between being told to stop and doing so goes
// on: who did it has no reason to do it again.
func TestContinuedBeforeTheStop(t *testing.T) {
	t.Parallel()
	cmd := stopHelperCommand(t, "overtaken")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	awaitTaken(t, cmd.Process.Pid)
	for _, step := range []func() error{
		func() error { return cmd.Process.Signal(unix.SIGTSTP) },
		func() error { _, err := io.ReadFull(out, make([]byte, len("told\n"))); return err },
		func() error { return cmd.Process.Signal(unix.SIGCONT) },
		func() error { _, err := in.Write([]byte("\n")); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if code := change(t, cmd); code == cldStopped {
		t.Fatal("it stopped after it was continued")
	}
	said, err := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	if err != nil {
		t.Error(err)
	}
}

// awaitTaken waits until a process takes SIGTSTP, which would stop it before.
func awaitTaken(t *testing.T, pid int) {
	t.Helper()
	for {
		f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		var caught uint64
		for lines := bufio.NewScanner(f); lines.Scan(); {
			_, _ = fmt.Sscanf(lines.Text(), "SigCgt:\t%x", &caught)
		}
		f.Close()
		if caught>>(unix.SIGTSTP-1)&1 != 0 {
			return
		}
		runtime.Gosched()
	}
}

// takeBoth sends them to its own thread, which takes them before it goes on.
func takeBoth(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 1000 {
		for _, sig := range []unix.Signal{unix.SIGTSTP, unix.SIGCONT} {
			if err := unix.Tgkill(os.Getpid(), unix.Gettid(), sig); err != nil {
				t.Fatal(err)
			}
			if got := lastTaken(); got != sig {
				t.Fatalf("%v is noted as the last, wanted %v", got, sig)
			}
		}
	}
}

// What came last is known at once, and not in the order of the numbers.
func TestOrderIsNoted(t *testing.T) {
	t.Parallel()
	if out, err := stopHelperCommand(t, "order").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
