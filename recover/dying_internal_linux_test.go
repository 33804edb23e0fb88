package recover

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// TestHoldsNoneThatEnds: a process that can't be looked at because it is just
// ending has gone; one that goes on is an error.
func TestHoldsNoneThatEnds(t *testing.T) {
	t.Parallel()
	errNoLook := errors.New("its program can't be read")
	for name, tc := range map[string]struct {
		seconds string
		want    error
	}{
		"ends": {"0.3", nil}, "goes on": {"60", errNoLook},
	} {
		cmd := exec.CommandContext(t.Context(), "sleep", tc.seconds)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go cmd.Wait() //nolint:errcheck // ends with the test
		p, err := hold(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		was := plan.Process{PID: p.pid, StartTicks: p.start}
		p.close()
		got, err := holdRecorded(was, &plan.Root{}, func(*process, *plan.Root) (bool, error) { return false, errNoLook })
		if got != nil || !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestThreadIsNoProcess: the id of a process that has ended may come to be a
// thread's of another one.
func TestThreadIsNoProcess(t *testing.T) {
	t.Parallel()
	ids, done := make(chan int, 2), make(chan struct{})
	defer close(done)
	for range 2 { // one of two isn't the first, whose id is the process's
		go func() {
			runtime.LockOSThread()
			ids <- unix.Gettid()
			<-done
		}()
	}
	tid := <-ids
	if tid == os.Getpid() {
		tid = <-ids
	}
	if p, err := hold(tid); !errors.Is(err, errGone) {
		t.Errorf("thread %d: %+v, %v", tid, p, err)
	}
	p, err := hold(os.Getpid()) // the control
	if err != nil {
		t.Fatal(err)
	}
	p.close()
}
