package supervise_test

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// TestForwarder: a signal that asks to end ends a launch; once the command may
// run it waits for it, like all others; and from then on it is the command's.
//
//nolint:paralleltest // signals are the whole process's
func TestForwarder(t *testing.T) {
	cancelled := make(chan unix.Signal, 8)
	f := supervise.Forward(func(s unix.Signal) { cancelled <- s }, unix.SIGTSTP)
	defer f.Stop()
	send := func(s unix.Signal) {
		if err := unix.Kill(unix.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	send(unix.SIGTERM)
	if s := <-cancelled; s != unix.SIGTERM {
		t.Errorf("%v ended the launch", s)
	}
	f.Hold()
	send(unix.SIGHUP)
	send(unix.SIGUSR1)
	got := make(chan unix.Signal, 8)
	f.Release(func(s unix.Signal) { got <- s })
	send(unix.SIGTSTP)
	list := []unix.Signal{<-got, <-got, <-got}
	slices.Sort(list)
	if want := []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGTSTP}; !slices.Equal(list, want) {
		t.Errorf("the command got %v, wanted %v", list, want)
	}
	if len(cancelled) != 0 {
		t.Errorf("%v ended the launch after its start", <-cancelled)
	}
	f.Stop()
	f.Stop()
}

func TestNoForwarder(t *testing.T) {
	t.Parallel()
	var f *supervise.Forwarder
	f.Hold()
	f.Release(func(unix.Signal) { t.Error("a signal out of nothing") })
	f.Stop()
}
