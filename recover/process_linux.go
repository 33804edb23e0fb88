package recover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// errGone is a process that ended while it was looked at.
var errGone = errors.New("the process has gone")

// process is one process, held by its pidfd. It is looked at through its
// directory in /proc, which names no later process of the same pid.
type process struct {
	pid   int
	pidfd int
	dir   int // /proc/PID
	// thread leads from there to a thread that runs on after the first one.
	thread string
	ppid   int
	start  uint64
	state  byte // as in /proc/PID/stat: Z is a zombie
}

// hold opens a pidfd and then looks: what /proc says afterwards is about the
// process that the pidfd holds, as long as that still answers at the end.
func hold(pid int) (*process, error) {
	p, err := grab(pid)
	if err != nil {
		return nil, err
	}
	err = p.readStat()
	if err == nil && p.state == 'Z' {
		err = p.useThread()
	}
	if err = p.seen(err); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// grab is hold without a look. An id that only a thread has by now is no
// process's: EINVAL, or ENOENT since Linux 6.9 (pidfd_open(2)).
func grab(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("process %d: %w", pid, errGone)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot hold process %d: %w", pid, err)
	}
	p := &process{pid: pid, pidfd: fd, dir: -1}
	if err := p.seen(p.openDir("/proc/" + strconv.Itoa(pid))); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// seen tells a process that has gone from one that can't be seen, hidepid in
// proc(5).
func (p *process) seen(err error) error {
	if errors.Is(err, errGone) && p.alive() == nil {
		return unclear("process %d doesn't show in /proc", p.pid)
	}
	return err
}

func (p *process) openDir(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.failed(err)
	}
	p.dir = fd
	return nil
}

// useThread looks at a process whose first thread has ended through one that
// runs on: all of it shows as a zombie, and isn't one, pthread_exit(3).
func (p *process) useThread() error {
	if p.alive() != nil {
		return nil //nolint:nilerr // all of it has ended
	}
	tasks, err := p.list("task")
	if err != nil {
		return err
	}
	start := p.start
	for _, task := range tasks {
		p.thread = "task/" + task + "/"
		if err := p.readStat(); err == nil && p.state != 'Z' && p.state != 'X' {
			p.start = start
			return nil
		}
	}
	p.thread = ""
	if !p.endsWithin(dyingTime) {
		return unclear("process %d has neither ended nor a thread that runs", p.pid)
	}
	return fmt.Errorf("process %d: %w", p.pid, errGone)
}

func (p *process) close() {
	_ = unix.Close(p.pidfd)
	_ = unix.Close(p.dir)
}

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

// failed says what an error of a look at the process means.
func (p *process) failed(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		// EINVAL: it has given up its namespaces already (fs/proc_namespace.c)
		return fmt.Errorf("process %d: %w", p.pid, errGone)
	}
	return fmt.Errorf("cannot look at process %d: %w", p.pid, err)
}

func (p *process) read(name string) ([]byte, error) {
	return p.readInto(nil, name)
}

// readInto is read with a buffer to use, where there are many to look at.
func (p *process) readInto(b []byte, name string) ([]byte, error) {
	b, err := readAt(p.dir, p.thread+name, b)
	if err != nil {
		return nil, p.failed(err)
	}
	return b, nil
}

// readAt is [os.ReadFile] without what it does for files that can be polled.
func readAt(dir int, name string, b []byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if cap(b) == 0 {
		b = make([]byte, 0, 2048) // status has 1,500 bytes
	}
	for {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case err == unix.EINTR: //nolint:errorlint // x/sys returns it bare
			continue
		case n <= 0 || err != nil:
			return b, err
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = slices.Grow(b, cap(b))
		}
	}
}

// list names what is in a directory of the process's.
func (p *process) list(name string) ([]string, error) {
	fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.failed(err)
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close() //nolint:errcheck // read only
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, p.failed(err)
	}
	return names, nil
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
	f := strings.Fields(field(b, "Uid"))
	if len(f) != 4 {
		return 0, fmt.Errorf("cannot read the user of process %d", p.pid)
	}
	return strconv.Atoi(f[1]) // effective
}

// field is the value of one line of status, whose name is escaped there.
func field(status []byte, name string) string {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSpace(line))
}

// exe is the program that the process runs, whatever became of its name.
func (p *process) exe() (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(p.dir, p.thread+"exe", &st, 0); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at the program of process %d: %w", p.pid, err)
	}
	return plan.File{Dev: st.Dev, Ino: st.Ino}, nil
}

// namespaceNames are those that are recorded, by their name in /proc/PID/ns.
var namespaceNames = [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

// spaces are the inodes of a process's namespaces, in the order of their names.
type spaces [len(namespaceNames)]uint64

func (s spaces) of(name string) uint64 { return s[slices.Index(namespaceNames[:], name)] }

// namespaces reads the links, "net:[4026531840]", which costs half of what
// following them does.
func (p *process) namespaces() (out spaces, err error) {
	var link [64]byte
	for i, name := range namespaceNames {
		n, err := unix.Readlinkat(p.dir, p.thread+"ns/"+name, link[:])
		if err != nil {
			return out, fmt.Errorf("its %s namespace: %w", name, p.failed(err))
		}
		digits, found := bytes.CutPrefix(link[:n], []byte(name+":["))
		if out[i], err = strconv.ParseUint(string(bytes.TrimSuffix(digits, []byte("]"))), 10, 64); err != nil || !found {
			return out, fmt.Errorf("cannot read the %s namespace of process %d: %q", name, p.pid, link[:n])
		}
	}
	return out, nil
}

// holds reports whether the process has a directory open.
func (p *process) holds(dir plan.File) (bool, error) {
	fds := p.thread + "fd"
	names, err := p.list(fds)
	if err != nil {
		return false, fmt.Errorf("cannot look at the descriptors of process %d: %w", p.pid, err)
	}
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(p.dir, fds+"/"+name, &st, 0)
		if err == nil && dir == (plan.File{Dev: st.Dev, Ino: st.Ino}) { // one that was closed meanwhile is no match
			return true, nil
		}
	}
	return false, nil
}

// children are the pids below a process, of all its threads.
// /proc/PID/task/TID/children needs CONFIG_PROC_CHILDREN; where it is missing
// every process is asked for its parent.
func (p *process) children() ([]int, error) {
	tasks, err := p.threads()
	if err != nil {
		return nil, err
	}
	var out []int
	for _, t := range tasks {
		b, err := readAt(p.dir, "task/"+t+"/children", nil)
		if err != nil {
			err = p.failed(err)
		}
		if errors.Is(err, errGone) {
			var st unix.Stat_t
			if unix.Fstatat(p.dir, "task/"+t, &st, 0) != nil {
				continue // the thread ended
			}
			return p.childrenByParent()
		}
		if err != nil {
			return nil, err
		}
		for _, s := range bytes.Fields(b) {
			pid, err := strconv.Atoi(string(s))
			if err != nil {
				return nil, fmt.Errorf("cannot read the children of process %d: %w", p.pid, err)
			}
			out = append(out, pid)
		}
	}
	return out, nil
}

// threads are the names of a process's threads. The links of their directory
// count them, and most processes have one (fs/proc/base.c, proc_task_getattr).
func (p *process) threads() ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(p.dir, "task", &st, 0); err != nil {
		return nil, p.failed(err)
	}
	const one = 3
	if st.Nlink == one {
		return []string{strconv.Itoa(p.pid)}, nil
	}
	return p.list("task")
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
		ppid, err := parentOf(pid)
		if err != nil && !errors.Is(err, errGone) {
			return nil, err
		}
		if err == nil && ppid == p.pid {
			out = append(out, pid)
		}
	}
	return out, nil
}

func parentOf(pid int) (int, error) {
	p := process{pid: pid, dir: -1}
	if err := p.openDir("/proc/" + strconv.Itoa(pid)); err != nil {
		return 0, err
	}
	defer unix.Close(p.dir)
	err := p.readStat()
	return p.ppid, err
}

func fileAt(path string) (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at %q: %w", path, err)
	}
	return plan.File{Dev: st.Dev, Ino: st.Ino}, nil
}
