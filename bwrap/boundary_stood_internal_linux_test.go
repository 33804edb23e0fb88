package bwrap

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (h *halted) send(t *testing.T, sig unix.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(h.fd, sig, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// awaitState waits until all threads of a process are in a state.
func (h *halted) awaitState(t *testing.T, state string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); states(h.pid) != state; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q, wanted %q", states(h.pid), state)
		}
	}
}

// That somebody ran is seen, though he stands again in the same state; and so
// is who came or went.
func TestStood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, s *stopped)
		ran    bool
	}{
		"nothing": {change: func(*testing.T, *stopped) { time.Sleep(50 * time.Millisecond) }},
		"a signal that doesn't wake": {change: func(t *testing.T, s *stopped) {
			h := s.list[0]
			h.send(t, unix.SIGUSR1)
			h.send(t, unix.SIGSTOP)
		}},
		"woken, and stopped again": {ran: true, change: func(t *testing.T, s *stopped) {
			h := s.list[0]
			h.send(t, unix.SIGCONT)
			h.awaitState(t, "S")
			h.send(t, unix.SIGSTOP)
			h.awaitState(t, "T")
		}},
		"killed": {ran: true, change: func(t *testing.T, s *stopped) {
			h := s.list[0]
			h.send(t, unix.SIGKILL)
			for end := time.Now().Add(10 * time.Second); states(h.pid) == "T" && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}},
		"another one": {ran: true, change: func(t *testing.T, s *stopped) {
			h := s.list[1]
			in, err := os.OpenFile(procPath(h.pid, "cwd/in"), os.O_RDWR, 0) // who opens both ends needn't wait
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if _, err := in.WriteString("\n"); err != nil {
				t.Fatal(err)
			}
			h.send(t, unix.SIGCONT)
			for end := time.Now().Add(10 * time.Second); len(childrenOfAll(h.pid)) == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("nobody came")
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := unix.Mkfifo(dir+"/in", 0o600); err != nil {
				t.Fatal(err)
			}
			s := held(t, dir, "sh -c 'while read x; do sleep 2000 & echo; done' <>in >out & :")
			if !s.stood() {
				t.Fatal("it doesn't stand")
			}
			c.change(t, s)
			if got := !s.stood(); got != c.ran {
				t.Errorf("ran: %v, wanted %v", got, c.ran)
			}
			if err := s.keep(); err != nil || !s.stood() {
				t.Errorf("it can't be stopped anew: %v", err)
			}
		})
	}
}

// Who is woken over and over is no loop without end.
func TestRunsOn(t *testing.T) {
	t.Parallel()
	s := held(t, t.TempDir(), ":")
	h := s.list[0]
	stop := make(chan struct{})
	var wakes sync.WaitGroup
	wakes.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
				_ = unix.Kill(h.pid, unix.SIGCONT)
			}
		}
	})
	defer wakes.Wait()
	defer close(stop)
	began := time.Now()
	for {
		err := s.keep()
		if errors.Is(err, errRan) {
			break
		}
		if err != nil || time.Since(began) > 10*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
	}
}
