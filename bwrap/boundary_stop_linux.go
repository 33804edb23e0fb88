package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopped are the processes inside, all of them, none of which runs until it
// is let go.
type stopped struct {
	init int
	list []*halted // parents first
	byID map[int]*halted
	// threads are how they stood, by thread; rounds, how often they were stopped anew.
	threads   map[int]*stood
	rounds    int
	meanwhile func()
}

// halted is one process that was sent SIGSTOP.
type halted struct {
	pid, fd int
	before  bool // it stood already
	stood   bool // it was seen to stand, which only a signal or a tracer's end ends
}

// lookEach is how many are stopped before something else is done.
const lookEach = 16

// stopWait bounds how long the processes may take to stand still.
const stopWait = 2 * time.Second

// stopInside stops every process inside, but for pid 1, which is bubblewrap's
// own. There is no way to stop a namespace at once where no cgroup was
// delegated: they are gone through until a round finds nobody new and all
// stand. A parent is stopped before its children, so that it doesn't see them
// stop, which shells would take for job control. Those of whom it can't be
// shown that they stand come with the error.
func stopInside(initPID int) (*stopped, error) { return stopMeanwhile(initPID, func() {}) }

// stopMeanwhile is stopInside that does something else again and again until all
// stand.
func stopMeanwhile(initPID int, do func()) (*stopped, error) {
	s := &stopped{init: initPID, byID: map[int]*halted{}, meanwhile: do}
	err := s.stand()
	s.meanwhile = func() {}
	return s, err
}

// stand waits until all stand, and remembers how.
func (s *stopped) stand() error {
	for end := time.Now().Add(stopWait); ; {
		found := s.round(s.init)
		s.meanwhile()
		if !found && s.still() && s.remember() && s.stood() {
			return nil
		}
		if s.rounds > maxRounds {
			return errRan
		}
		if time.Now().After(end) {
			return errors.New("its processes can't be stopped")
		}
		runtime.Gosched()
	}
}

// round goes down from one process and stops whoever wasn't stopped.
func (s *stopped) round(parent int) (found bool) {
	for _, pid := range childrenOfAll(parent) {
		if s.byID[pid] == nil {
			if len(s.list)%lookEach == lookEach-1 {
				s.meanwhile()
			}
			h := halt(parent, pid)
			found = true
			if h == nil {
				continue // it has ended, and may have left others
			}
			s.byID[pid] = h
			s.list = append(s.list, h)
		}
		found = s.round(pid) || found
	}
	return found
}

// childrenOfAll are the children of all threads of a process.
func childrenOfAll(pid int) []int {
	files, err := filepath.Glob(procPath(pid, "task/*/children"))
	if err != nil {
		return nil
	}
	var list []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(field); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// halt stops one process, if it still is that parent's.
func halt(parent, pid int) *halted {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	// One that stands for a tracer gets SIGCONT too: SIGSTOP waits for it behind
	// that, and a tracer that seized it would listen for SIGCONT (ptrace(2)).
	h := &halted{pid: pid, fd: fd, before: strings.Trim(states(pid), asleep) == ""}
	if p, err := readProc(pid); err != nil || p.ppid != parent || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return nil
	}
	return h
}

// still reports whether no thread of any of them runs. Who runs is told to stop
// once more: he may have been woken before he was seen to stand.
func (s *stopped) still() bool {
	all := true
	for _, h := range s.list {
		now := states(h.pid)
		if strings.Trim(now, standing+inVfork) == "" {
			h.stood = h.stood || strings.Trim(now, asleep) == ""
			continue
		}
		if h.stood {
			s.rounds++
		}
		h.stood, all = false, false
		_ = unix.PidfdSendSignal(h.fd, unix.SIGSTOP, nil, 0) // it may be ending
	}
	return all
}

// The states in which a thread doesn't run, proc_pid_stat(5): T, t, Z and X. One
// that waits for the child of a vfork(2) can't stop before that one goes on, and
// counts as well.
const (
	standing = "TtZX"
	asleep   = "TZX" // but for those that a tracer has stopped
	inVfork  = "v"
)

// states are the letters of a process's threads.
func states(pid int) string {
	tasks, err := filepath.Glob(procPath(pid, "task/*"))
	if err != nil {
		return "?"
	}
	var all strings.Builder
	for _, task := range tasks {
		state := taskState(task)
		if state == "D" && forkCalls[taskCall(task)] {
			state = inVfork
		}
		all.WriteString(state)
	}
	return all.String()
}

// taskState is the letter of proc_pid_stat(5), "" for a task that has gone.
func taskState(task string) string {
	b, err := os.ReadFile(task + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	if rest == "" {
		return "?"
	}
	return rest[:1]
}

// taskCall is the number of the system call that a task is in.
func taskCall(task string) string {
	b, err := os.ReadFile(task + "/syscall")
	if err != nil {
		return ""
	}
	nr, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	return nr
}

// kill ends them, none of which runs again.
func (s *stopped) kill() {
	for _, h := range s.list {
		_ = unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0)
		closeFD(&h.fd)
	}
	s.list = nil
	s.forget()
}

// letGo lets them go on, children first, but for those that stood before.
func (s *stopped) letGo() {
	for i := len(s.list) - 1; i >= 0; i-- {
		h := s.list[i]
		if !h.before {
			_ = unix.PidfdSendSignal(h.fd, unix.SIGCONT, nil, 0)
		}
		closeFD(&h.fd)
	}
	s.list = nil
	s.forget()
}
