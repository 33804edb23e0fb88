package recover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// errGone is a process that ended while it was looked at.
var errGone = errors.New("the process has gone")

// process is one process, held by its pidfd.
type process struct {
	pid   int
	pidfd int
	ppid  int
	start uint64
	state byte // as in /proc/PID/stat: Z is a zombie
}

// hold opens a pidfd and then looks: what /proc says afterwards is about the
// process that the pidfd holds, as long as that still answers at the end.
func hold(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("process %d: %w", pid, errGone)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot hold process %d: %w", pid, err)
	}
	p := &process{pid: pid, pidfd: fd}
	if err := p.readStat(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *process) close() { _ = unix.Close(p.pidfd) }

// alive reports whether the process still runs, a zombie does not.
func (p *process) alive() error {
	poll := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	if errors.Is(err, unix.EINTR) {
		return p.alive()
	}
	if err != nil {
		return fmt.Errorf("cannot ask for process %d: %w", p.pid, err)
	}
	if n > 0 { // a pidfd is readable once its process has ended, pidfd_open(2)
		return fmt.Errorf("process %d: %w", p.pid, errGone)
	}
	return nil
}

// endsWithin waits until the process has ended, for so many milliseconds.
func (p *process) endsWithin(ms int) bool {
	poll := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, ms)
	if errors.Is(err, unix.EINTR) {
		return p.endsWithin(ms)
	}
	return err == nil && n > 0
}

func (p *process) path(name string) string {
	return "/proc/" + strconv.Itoa(p.pid) + "/" + name
}

func (p *process) read(name string) ([]byte, error) {
	b, err := os.ReadFile(p.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		// EINVAL: it has given up its namespaces already (fs/proc_namespace.c)
		return nil, fmt.Errorf("process %d: %w", p.pid, errGone)
	case err != nil:
		return nil, fmt.Errorf("cannot look at process %d: %w", p.pid, err)
	}
	return b, nil
}

// The fields of stat after the name, which ends at the last parenthesis:
// state is field 3, ppid 4, starttime 22, proc_pid_stat(5).
func (p *process) readStat() error {
	b, err := p.read("stat")
	if err != nil {
		return err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return fmt.Errorf("cannot read the statistics of process %d", p.pid)
	}
	p.state = f[0][0]
	if p.ppid, err = strconv.Atoi(f[1]); err != nil {
		return fmt.Errorf("cannot read the parent of process %d: %w", p.pid, err)
	}
	if p.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return fmt.Errorf("cannot read the start of process %d: %w", p.pid, err)
	}
	return nil
}

// is reports whether this is the recorded process and not a later one of the
// same pid.
func (p *process) is(r plan.Process) bool { return p.pid == r.PID && p.start == r.StartTicks }

// uid is who the process runs as, by the owner of its directory. A process
// that isn't dumpable belongs to root there, so the status is read instead.
func (p *process) uid() (int, error) {
	b, err := p.read("status")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(field(string(b), "Uid"))
	if len(f) != 4 {
		return 0, fmt.Errorf("cannot read the user of process %d", p.pid)
	}
	return strconv.Atoi(f[1]) // effective
}

// field is the value of one line of status.
func field(status, name string) string {
	for line := range strings.Lines(status) {
		if v, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// exe is the program that the process runs, whatever became of its name.
func (p *process) exe() (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Stat(p.path("exe"), &st); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at the program of process %d: %w", p.pid, err)
	}
	return plan.File{Dev: st.Dev, Ino: st.Ino}, nil
}

// namespaceNames are those that are recorded, by their name in /proc/PID/ns.
var namespaceNames = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

func (p *process) namespaces() (map[string]uint64, error) {
	out := make(map[string]uint64, len(namespaceNames))
	for _, name := range namespaceNames {
		var st unix.Stat_t
		err := unix.Stat(p.path("ns/"+name), &st)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("process %d: %w", p.pid, errGone)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at the %s namespace of process %d: %w", name, p.pid, err)
		}
		out[name] = st.Ino
	}
	return out, nil
}

// holds reports whether the process has the directory open.
func (p *process) holds(dir os.FileInfo) (bool, error) {
	entries, err := os.ReadDir(p.path("fd"))
	if err != nil {
		return false, fmt.Errorf("cannot look at the descriptors of process %d: %w", p.pid, err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(p.path("fd"), e.Name()))
		if err == nil && os.SameFile(info, dir) { // one that was closed meanwhile is no match
			return true, nil
		}
	}
	return false, nil
}

// children are the pids below a process, of all its threads.
// /proc/PID/task/TID/children needs CONFIG_PROC_CHILDREN; where it is missing
// every process is asked for its parent.
func (p *process) children() ([]int, error) {
	tasks, err := os.ReadDir(p.path("task"))
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", p.pid, errGone)
	}
	var out []int
	for _, t := range tasks {
		b, err := os.ReadFile(p.path("task/" + t.Name() + "/children"))
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Stat(p.path("task/" + t.Name())); gone != nil {
				continue // the thread ended
			}
			return p.childrenByParent()
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("cannot list the children of process %d: %w", p.pid, err)
		}
		for _, s := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(s)
			if err != nil {
				return nil, fmt.Errorf("cannot read the children of process %d: %w", p.pid, err)
			}
			out = append(out, pid)
		}
	}
	return out, nil
}

func (p *process) childrenByParent() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		other := process{pid: pid}
		if err := other.readStat(); err != nil {
			if errors.Is(err, errGone) {
				continue
			}
			return nil, err
		}
		if other.ppid == p.pid {
			out = append(out, pid)
		}
	}
	return out, nil
}
