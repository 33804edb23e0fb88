package notify

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func bit(signals ...unix.Signal) (set uint64) {
	for _, s := range signals {
		set |= 1 << (s - 1)
	}
	return set
}

func TestInterrupts(t *testing.T) {
	t.Parallel()
	const alarm, child, stop, term = unix.SIGALRM, unix.SIGCHLD, unix.SIGTSTP, unix.SIGTERM
	for name, c := range map[string]struct {
		now, before signals
		bounded     bool
		want        unix.Errno
	}{
		"nothing":                 {now: signals{threads: 1, caught: bit(alarm)}},
		"one thread":              {now: signals{threads: 1, shared: bit(alarm)}, want: restart},
		"one thread, bounded":     {now: signals{threads: 1, shared: bit(alarm)}, bounded: true, want: unix.EINTR},
		"one thread, blocked":     {now: signals{threads: 1, shared: bit(alarm), own: bit(term), blocked: bit(alarm, term)}},
		"the first thread":        {now: signals{threads: 2, id: 7, process: 7, shared: bit(alarm)}, want: restart},
		"the first thread stops":  {now: signals{threads: 2, id: 7, process: 7, shared: bit(stop)}, want: restart},
		"the thread's own":        {now: signals{threads: 9, id: 8, process: 7, own: bit(alarm)}, want: restart},
		"some thread's":           {now: signals{threads: 2, id: 8, process: 7, shared: bit(alarm)}},
		"some thread's, but new":  {now: signals{threads: 2, id: 8, process: 7, shared: bit(alarm)}, before: signals{shared: bit(term)}},
		"nobody else's":           {now: signals{threads: 2, id: 8, process: 7, shared: bit(alarm)}, before: signals{shared: bit(alarm)}, want: unix.EINTR},
		"nobody's, blocked":       {now: signals{threads: 2, id: 8, process: 7, shared: bit(alarm), blocked: bit(alarm)}, before: signals{shared: bit(alarm)}},
		"nobody's, ignored":       {now: signals{threads: 2, id: 8, process: 7, shared: bit(alarm), ignored: bit(alarm)}, before: signals{shared: bit(alarm)}},
		"nobody's, does nothing":  {now: signals{threads: 2, id: 8, process: 7, shared: bit(child)}, before: signals{shared: bit(child)}},
		"nobody's, stops":         {now: signals{threads: 2, id: 8, process: 7, shared: bit(stop)}, before: signals{shared: bit(stop)}},
		"nobody's, child handled": {now: signals{threads: 2, id: 8, process: 7, shared: bit(child), caught: bit(child)}, before: signals{shared: bit(child)}, want: unix.EINTR},
	} {
		if got := c.now.interrupts(c.before, c.bounded); got != c.want {
			t.Errorf("%s: %d, wanted %d", name, got, c.want)
		}
	}
}

func TestSignalsOf(t *testing.T) {
	t.Parallel()
	s, ok := signalsOf(os.Getpid())
	if !ok || s.threads < 2 || s.caught&bit(unix.SIGURG) == 0 {
		t.Errorf("%v %+v of a Go program", ok, s)
	}
	for _, status := range []string{
		"", "Threads:\t1\n",
		"Threads:\t1\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n",
		"Tgid:\t1\nPid:\t1\nThreads:\t1\nSigPnd:\t0\nShdPnd:\t0\nSigBlk:\tx\nSigIgn:\t0\nSigCgt:\t0\n",
	} {
		if s, ok := parseSignals(status); ok {
			t.Errorf("%q: %+v", status, s)
		}
	}
	s, ok = parseSignals("Name:\tx\\nThreads: 7\nTgid:\t30\nPid:\t31\nThreads:\t12\nSigPnd:\t01\nShdPnd:\t2\nSigBlk:\t4\nSigIgn:\t8\nSigCgt:\tfffffffffffffff0\n")
	if want := (signals{own: 1, shared: 2, blocked: 4, ignored: 8, caught: 0xfffffffffffffff0, threads: 12, id: 31, process: 30}); !ok || s != want {
		t.Errorf("%v %+v, wanted %+v", ok, s, want)
	}
}
