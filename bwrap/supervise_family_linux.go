package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// family is the sandbox as the host sees it: bubblewrap's monitor, its child
// that is the sandbox's pid 1, and that one's child, the stub. The last two
// are held by pidfd.
type family struct {
	init   proc
	stub   proc
	initFD int
	stubFD int
	rusage unix.Rusage // of pid 1 and all it waited for, where this process inherited it
}

func (f *family) close() {
	closeFD(&f.initFD)
	closeFD(&f.stubFD)
}

// meet proves who sent the Hello: the kernel wrote its pid, the process of
// that pid must be a child of a pid 1 that is a child of our bubblewrap. The
// pidfds are opened before the look, so a pid that was taken over in between
// shows as a wrong parent: no process of the command's exists yet.
func meet(m *monitor, pid int) (*family, error) {
	f := &family{initFD: -1, stubFD: -1}
	if err := f.look(m, pid); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *family) look(m *monitor, pid int) (err error) {
	if pid <= 0 {
		return fmt.Errorf("the sender of the greeting has no pid here")
	}
	if f.stubFD, err = unix.PidfdOpen(pid, 0); err != nil {
		return fmt.Errorf("cannot hold process %d: %w", pid, err)
	}
	if f.stub, err = readProc(pid); err != nil {
		return err
	}
	if f.initFD, err = unix.PidfdOpen(f.stub.ppid, 0); err != nil {
		return fmt.Errorf("cannot hold process %d: %w", f.stub.ppid, err)
	}
	if f.init, err = readProc(f.stub.ppid); err != nil {
		return err
	}
	if f.init.ppid != m.pid {
		return fmt.Errorf("process %d is not of this sandbox: %d is not a child of bubblewrap %d", pid, f.init.pid, m.pid)
	}
	st, err := readStatus(f.init.pid)
	if err != nil {
		return err
	}
	if n := len(st.nspid); n < 2 || st.nspid[n-1] != "1" {
		return fmt.Errorf("process %d is not the first of a pid namespace", f.init.pid)
	}
	// Both were there all the while, so what was read is about them.
	return errors.Join(alive(f.stubFD), alive(f.initFD))
}

// pidOf is the process that a pidfd is of, as this process counts,
// pidfd_open(2).
func pidOf(pidfd int) (int, error) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0, fmt.Errorf("cannot look at a descriptor: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(v))
			if err == nil && pid > 0 {
				return pid, nil
			}
		}
	}
	return 0, errors.New("the descriptor is of no living process")
}

// alive fails for a process that has ended, reaped or not: one that waits for
// its parent still takes signals, but has no root and no namespaces.
func alive(pidfd int) error {
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		return fmt.Errorf("a process of the sandbox has gone: %w", err)
	}
	ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}} // pidfd_open(2)
	n, err := unix.Poll(ended, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(ended, 0)
	}
	if err == nil && n > 0 {
		err = unix.ESRCH
	}
	if err != nil {
		return fmt.Errorf("a process of the sandbox has gone: %w", err)
	}
	return nil
}

// armed waits until the sandbox's pid 1 dies with its parent. bubblewrap says
// so to the kernel (PR_SET_PDEATHSIG) and loads the seccomp filter next, in a
// process that runs beside the stub: a supervisor killed before that would
// leave the command running. Only the filter can be seen from here.
func (f *family) armed(ctx context.Context) (status, error) {
	for delay := 50 * time.Microsecond; ; delay = min(2*delay, 10*time.Millisecond) {
		st, err := readStatus(f.init.pid)
		if err != nil {
			return status{}, err
		}
		if st.seccomp == "2" {
			return st, alive(f.initFD)
		}
		runtime.Gosched()
		select { // nothing tells of another process's prctl
		case <-ctx.Done():
			return status{}, fmt.Errorf("bubblewrap's pid 1 has no seccomp filter: %w", context.Cause(ctx))
		case <-time.After(delay):
		}
	}
}

// root is what the record keeps. It is taken while the stub waits for its Go,
// so every process it speaks of is there.
func (f *family) root(m *monitor, st status, digest string) (plan.Root, error) {
	boot, err := bootID()
	if err != nil {
		return plan.Root{}, err
	}
	exe, err := self()
	if err != nil {
		return plan.Root{}, err
	}
	r := plan.Root{
		Digest: digest, Started: time.Now(), BootID: boot, Owner: os.Geteuid(), Exe: exe,
		Init: f.init.process(), Command: f.stub.process(),
	}
	for to, pid := range map[*plan.Process]int{&r.Supervisor: os.Getpid(), &r.Bwrap: m.pid} {
		p, err := readProc(pid)
		if err != nil {
			return plan.Root{}, err
		}
		*to = p.process()
	}
	stub, err := readStatus(f.stub.pid)
	if err != nil {
		return plan.Root{}, err
	}
	r.Filters = map[string]int{"init": st.filters, "command": stub.filters}
	// The stub's namespaces: bubblewrap leaves its pid 1 in the same ones.
	if r.Namespaces, err = namespaces(f.stub.pid); err != nil {
		return plan.Root{}, err
	}
	if r.Mounts, err = mountTable(f.stub.pid); err != nil {
		return plan.Root{}, err
	}
	if r.UIDMap, err = readLine(f.stub.pid, "uid_map"); err != nil {
		return plan.Root{}, err
	}
	r.GIDMap, err = readLine(f.stub.pid, "gid_map")
	return r, err
}

func (p proc) process() plan.Process { return plan.Process{PID: p.pid, StartTicks: p.start} }

// self is the program that runs here, whatever has become of its name.
func self() (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at this program: %w", err)
	}
	return plan.File{Dev: st.Dev, Ino: st.Ino}, nil
}
