package bwrap

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SIGSTOP doesn't hold: SIGCONT from a timer (timer_create(2)), an owner's
// signal (F_SETSIG, mq_notify(3), PR_SET_PDEATHSIG) or somebody outside lets a
// process go on. What would hold isn't always to be had: a freezer takes a
// delegated cgroup, ptrace(2) nobody who is traced already. So it is proved
// afterwards that nobody has run, whatever could have woken them: the kernel
// counts how often a thread was taken off its processor
// (proc_pid_status(5)), and who was off it at two times, with the same count,
// has not been on it in between. Threads that stand are on their way back to
// user mode, or in vfork(2), and so not within any call that looks up a name.

// stood is how a thread stood when it was seen to.
type stood struct {
	dir int // its directory in /proc, which is never another thread's
	how string
	// first: it is pid 1's, which isn't stopped, and waits.
	first bool
}

// maxRounds bounds how often any of them is stopped anew who ran on.
const maxRounds = 5

// errRan is an end: who does this can do it for ever.
var errRan = errors.New("something inside ran on time and again though it was stopped")

// again stops them anew.
func (s *stopped) again() error {
	s.rounds++
	left := s.list[:0]
	for _, h := range s.list {
		if unix.PidfdSendSignal(h.fd, unix.SIGSTOP, nil, 0) == nil {
			h.stood = false
			left = append(left, h)
			continue
		}
		closeFD(&h.fd) // it has ended, and its number may be another's
		delete(s.byID, h.pid)
	}
	s.list = left
	return s.stand()
}

// keep stops them anew if they didn't stand.
func (s *stopped) keep() error {
	if s.stood() {
		return nil
	}
	return s.again()
}

// remember notes how each thread stands, unless one doesn't, or is unknown.
func (s *stopped) remember() bool {
	s.forget()
	return s.eachThread(func(pid, tid int) bool {
		dir, err := unix.Open(procPath(pid, "task/"+strconv.Itoa(tid)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		t := &stood{dir: dir, first: pid == s.init}
		s.threads[tid] = t
		t.how = t.read()
		return t.how != "" && (t.first || s.byID[pid] != nil)
	})
}

// stood reports whether nobody has run since, and nobody has come or gone.
func (s *stopped) stood() bool {
	n := 0
	return s.eachThread(func(_, tid int) bool {
		n++
		t := s.threads[tid]
		return t != nil && t.how == t.read()
	}) && n == len(s.threads)
}

func (s *stopped) forget() {
	for _, t := range s.threads {
		closeFD(&t.dir)
	}
	s.threads = map[int]*stood{}
}

// eachThread goes through all threads of all processes from pid 1 on, which
// others inside may trace where Landlock doesn't forbid it, zombies included:
// what the kernel lists of children is complete as long as none of those is
// taken away that it has listed (proc_pid_task_tid_children(5)), and then their
// number tells.
func (s *stopped) eachThread(do func(pid, tid int) bool) bool {
	for todo := []int{s.init}; len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		tasks, err := os.ReadDir(procPath(pid, "task"))
		if err != nil {
			return pid == s.init && gone(err) // with all others
		}
		for _, e := range tasks {
			if tid, err := strconv.Atoi(e.Name()); err != nil || !do(pid, tid) {
				return false
			}
		}
		todo = append(todo, childrenOfAll(pid)...)
	}
	return true
}

// read answers a thread's state and how often it has left its processor, or ""
// if it doesn't stand there, off it.
//
// A thread is in its state a moment before it leaves the processor, and woken
// within that it would run on uncounted. The kernel waits for that moment to
// pass before it tells of a thread's call, and says so if it runs
// (task_current_syscall(), lib/syscall.c). It may refuse to tell: Yama's
// strictest scope does, and a process that can't be dumped, into which holder
// can't look either. Then what was read twice when all stood has to do.
func (t *stood) read() string {
	call, err := t.file("syscall")
	nr, _, _ := strings.Cut(strings.TrimSpace(call), " ")
	state, switches := t.status()
	switch {
	case state == "Z" || state == "X":
		return state
	case err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) || nr == "running" || switches == "":
		return ""
	case state == "T" || state == "t" || state == "D" && forkCalls[nr] || state == "S" && t.first:
		return state + switches
	}
	return ""
}

// status answers the state's letter and both counts.
func (t *stood) status() (state, switches string) {
	text, err := t.file("status")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "State":
			state, _, _ = strings.Cut(value, " ")
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			switches += " " + value
		}
	}
	return state, switches
}

// file reads something of a thread's.
func (t *stood) file(name string) (string, error) {
	fd, err := unix.Openat(t.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var text [8 << 10]byte
	n, err := unix.Read(fd, text[:])
	if err != nil || n == len(text) {
		return "", errors.Join(err, errors.New("it is too long"))
	}
	return string(text[:n]), nil
}
