package bwrap

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

// TestTraceeIsLetGo: one that stood for its tracer has no SIGSTOP left, which
// the tracer would wait out for ever.
func TestTraceeIsLetGo(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the tracer; the thread ends with the test
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, unix.WALL, nil) // only then is it its parent's
		_ = cmd.Wait()
	}()
	if err := errors.Join(unix.PtraceSeize(pid), unix.PtraceInterrupt(pid)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	pending := func() bool {
		b, err := os.ReadFile(procPath(pid, "status"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "ShdPnd:")
		set, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
		return err == nil && set&(1<<(unix.SIGSTOP-1)) != 0
	}
	s, err := stopInside(cmd.Process.Pid)
	if err != nil || !pending() {
		t.Fatalf("%v; SIGSTOP was not sent", err)
	}
	if s.letGo(); pending() {
		t.Error("SIGSTOP waits for the tracer to let it go on")
	}
}
