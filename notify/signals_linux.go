package notify

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// signals are those of a thread, as its status file has them
// (proc_pid_status(5)): bit n-1 is signal n.
type signals struct {
	own, shared              uint64 // pending for the thread, and for its process
	blocked, ignored, caught uint64
	threads                  uint64 // of its process
	id, process              uint64
}

// first reports whether it is the first thread of its process.
func (s signals) first() bool { return s.id == s.process }

// signalsOf reads them. A program's own name can't add a line: the kernel
// escapes line ends in it.
func signalsOf(tid int) (s signals, ok bool) {
	b, err := os.ReadFile(procPath(tid, "status"))
	if err != nil {
		return s, false
	}
	return parseSignals(string(b))
}

func parseSignals(status string) (s signals, ok bool) {
	fields := map[string]*uint64{
		"SigPnd": &s.own, "ShdPnd": &s.shared, "SigBlk": &s.blocked, "SigIgn": &s.ignored, "SigCgt": &s.caught,
		"Threads": &s.threads, "Pid": &s.id, "Tgid": &s.process,
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		field := fields[name]
		if field == nil {
			continue
		}
		base := 16
		if name == "Threads" || name == "Pid" || name == "Tgid" {
			base = 10
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), base, 64)
		if err != nil {
			return s, false
		}
		*field = n
		delete(fields, name)
	}
	return s, len(fields) == 0
}

// idle are the signals whose default action doesn't end a process, signal(7).
const idle uint64 = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGCONT-1) |
	1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// restart is ERESTARTSYS of include/linux/errno.h. With a signal to deliver,
// the kernel answers EINTR for it, or makes the call anew: after a handler
// with SA_RESTART, a stop, or none at all. Without one, the program would see
// the number.
const restart = unix.Errno(512)

// interrupts is what a call that waits is answered for the signals that are
// pending now; 0 where it goes on. bounded is SO_SNDTIMEO, with which a call
// is never made anew (signal(7)).
//
// A signal for this thread was announced to it, and one for its process to the
// first thread, unless that blocks it (complete_signal in kernel/signal.c; who
// takes the block away looks for signals then). So the kernel will look for
// one to deliver, and restart is safe. Which other thread was chosen for a
// signal that the first one blocks isn't told anywhere. One that is free to
// take it has done so by the next look. If nobody was, EINTR lets this one:
// restart could be seen where another was chosen, see [watch.alone]. EINTR is
// wrong after a stop and where nothing is done, so those wait.
func (s signals) interrupts(before signals, bounded bool) unix.Errno {
	own := s.own
	if s.first() {
		own |= s.shared
	}
	switch {
	case own&^s.blocked != 0 && bounded:
		return unix.EINTR
	case own&^s.blocked != 0:
		return restart
	case s.pendsFor(before) != 0:
		return unix.EINTR
	}
	return 0
}

// pendsFor are the signals that nobody has taken since the last look, and this
// thread could.
func (s signals) pendsFor(before signals) uint64 {
	return s.shared & before.shared &^ s.blocked &^ s.ignored &^ (idle &^ s.caught)
}

// watch looks at the signals of a caller that waits. WAIT_KILLABLE_RECV lets
// none but SIGKILL end its call, and keeps those with a default action that
// ends the process from doing so while a handled one is pending.
type watch struct {
	tid     int
	bounded bool
	before  signals
}

// look is what the caller must be answered; 0: it waits on. What it tells
// holds if the caller still waits afterwards.
func (w *watch) look() unix.Errno {
	s, ok := signalsOf(w.tid)
	if !ok {
		return 0
	}
	errno := s.interrupts(w.before, w.bounded)
	if errno == unix.EINTR && !w.bounded && w.alone(s.pendsFor(w.before)) {
		errno = restart
	}
	w.before = s
	if errno == 0 && s.threads > 1 && stops(w.tid) {
		if w.bounded {
			return unix.EINTR
		}
		return restart
	}
	return errno
}

// alone reports whether no other thread would take any of these signals. Then
// this one was chosen: if not when a signal came, when those blocked it who had
// been (retarget_shared_pending in kernel/signal.c).
func (w *watch) alone(set uint64) bool {
	tasks, err := os.ReadDir(procPath(w.tid, "task"))
	if err != nil {
		return false
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return false
		}
		if tid == w.tid {
			continue
		}
		if s, ok := signalsOf(tid); !ok || set&^s.blocked != 0 {
			return false
		}
	}
	s, ok := signalsOf(w.tid)
	return ok && s.shared&set == set
}

// stops reports whether the process of a thread stops: the others have, and
// this one is waited for. The kernel has told each of them to look for signals
// by then (do_signal_stop in kernel/signal.c), also where SIGCONT has come
// since, so that restart is safe.
func stops(tid int) bool {
	tasks, err := os.ReadDir(procPath(tid, "task"))
	if err != nil {
		return false
	}
	for _, t := range tasks {
		b, err := os.ReadFile(procPath(tid, "task/"+t.Name()+"/stat"))
		if err != nil || t.Name() == strconv.Itoa(tid) {
			continue
		}
		// The state follows the name, which may hold anything (proc_pid_stat(5)).
		if _, rest, ok := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " "); ok && strings.HasPrefix(rest, "T") {
			return true
		}
	}
	return false
}
