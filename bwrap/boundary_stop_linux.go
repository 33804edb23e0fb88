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
}

// halted is one process that was sent SIGSTOP.
type halted struct {
	pid, fd int
	before  bool // it stood already
}

// stopWait bounds how long the processes may take to stand still.
const stopWait = 2 * time.Second

// stopInside stops every process inside, but for pid 1, which is bubblewrap's
// own. There is no way to stop a namespace at once where no cgroup was
// delegated: they are gone through until a round finds nobody new and all
// stand. A parent is stopped before its children, so that it doesn't see them
// stop, which shells would take for job control.
func stopInside(initPID int) (*stopped, error) {
	s := &stopped{init: initPID, byID: map[int]*halted{}}
	for end := time.Now().Add(stopWait); ; {
		found := s.round(initPID)
		if !found && s.still() {
			return s, nil
		}
		if time.Now().After(end) {
			s.letGo()
			return nil, errors.New("its processes can't be stopped")
		}
		runtime.Gosched()
	}
}

// round goes down from one process and stops whoever wasn't stopped.
func (s *stopped) round(parent int) (found bool) {
	for _, pid := range childrenOfAll(parent) {
		if s.byID[pid] == nil {
			h := halt(parent, pid)
			if h == nil {
				continue // it has ended
			}
			found = true
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
	h := &halted{pid: pid, fd: fd, before: standing(pid, false)}
	if p, err := readProc(pid); err != nil || p.ppid != parent || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
		unix.Close(fd)
		return nil
	}
	return h
}

// still reports whether no thread of any of them runs.
func (s *stopped) still() bool {
	for _, h := range s.list {
		if !standing(h.pid, true) {
			return false
		}
	}
	return true
}

// standing reports whether no thread of a process runs, proc_pid_stat(5). One
// that waits for the child of a vfork(2) can't stop before that one goes on, and
// counts if vfork is set.
func standing(pid int, vfork bool) bool {
	tasks, err := filepath.Glob(procPath(pid, "task/*"))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		switch state := taskState(task); {
		case state == "":
			continue // gone
		case strings.Contains("TtZX", state):
		case state == "D" && vfork && inVfork(task):
		default:
			return false
		}
	}
	return true
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

func inVfork(task string) bool {
	b, err := os.ReadFile(task + "/syscall")
	if err != nil {
		return false
	}
	nr, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	return forkCalls[nr]
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
}
