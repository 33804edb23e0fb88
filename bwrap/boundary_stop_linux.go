package bwrap

import (
	"errors"
	"fmt"
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
		b, err := os.ReadFile(task + "/stat")
		if err != nil {
			continue // gone
		}
		_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		switch state := rest[:min(1, len(rest))]; {
		case strings.Contains("TtZX", state) && state != "":
		case state == "D" && vfork && inVfork(task):
		default:
			return false
		}
	}
	return true
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

// holder says who inside has hold of an object of the host: by a descriptor,
// a mapping, as a directory to be in, or in a message under way in a socket,
// where nobody can look. "" is nobody.
func (s *stopped) holder(obj object) (string, error) {
	for _, h := range s.list {
		tasks, err := filepath.Glob(procPath(h.pid, "task/*"))
		if err != nil {
			return "", err
		}
		for _, task := range tasks {
			why, err := obj.heldBy(task)
			if err != nil && !gone(err) {
				return "", fmt.Errorf("cannot look at process %d: %w", h.pid, err)
			}
			if why != "" {
				return fmt.Sprintf("process %d %s", h.pid, why), nil
			}
		}
	}
	return "", nil
}

func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// object is what came to be at a path. dir: what lies beneath counts as well.
type object struct {
	identity
	path string
	dir  bool
}

func (o object) heldBy(task string) (string, error) {
	for _, name := range []string{"cwd", "root"} {
		if o.is(task + "/" + name) {
			return "is in it", nil
		}
	}
	list, err := os.ReadDir(task + "/fd")
	if err != nil {
		return "", err
	}
	for _, e := range list {
		if o.is(task + "/fd/" + e.Name()) {
			return "has it open", nil
		}
		info, err := os.ReadFile(task + "/fdinfo/" + e.Name())
		if err != nil && !gone(err) {
			return "", err
		}
		if underWay(string(info)) {
			return "has sent descriptors that nobody has received yet", nil
		}
	}
	maps, err := os.ReadFile(task + "/maps")
	if err != nil {
		return "", err
	}
	if o.mapped(string(maps)) {
		return "has it mapped", nil
	}
	return "", nil
}

// is reports whether a link of /proc leads to the object, or beneath it.
func (o object) is(link string) bool {
	var st unix.Stat_t
	if unix.Stat(link, &st) == nil && st.Dev == o.dev && st.Ino == o.ino {
		return true
	}
	if !o.dir {
		return false
	}
	to, err := os.Readlink(link)
	return err == nil && (to == o.path || isBelow(to, o.path))
}

// underWay reads what fdinfo says of a socket (scm_fds, Linux 5.10).
func underWay(info string) bool {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "scm_fds:"); ok {
			return strings.TrimSpace(v) != "0"
		}
	}
	return false
}

// mapped looks for the object's device and inode in /proc/PID/maps.
func (o object) mapped(maps string) bool {
	want := fmt.Sprintf("%02x:%02x %d", unix.Major(o.dev), unix.Minor(o.dev), o.ino)
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) >= 5 && f[3]+" "+f[4] == want {
			return true
		}
	}
	return false
}
