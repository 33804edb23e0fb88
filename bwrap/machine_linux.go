package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/notify"
)

// probe reads the machine. Nothing here starts a process: whether namespaces
// can be made is learnt by making them, when the launch itself starts.
func probe(ctx context.Context, m Machine) (Machine, error) {
	if err := ctx.Err(); err != nil {
		return Machine{}, err
	}
	m.Arch, m.UID, m.GID = runtime.GOARCH, os.Getuid(), os.Getgid()
	var err error
	if m.LandlockABI, err = landlockABI(); err != nil {
		return Machine{}, err
	}
	probeNotify(&m)
	if err = probeNames(&m); err != nil {
		return Machine{}, err
	}
	for p, id := range map[string]*guard.FileID{"/": &m.Root, "/sys": &m.Sys} {
		if _, *id, err = look(p); err != nil {
			return Machine{}, err
		}
	}
	if m.RunsMemfd, err = runsMemfd(); err != nil {
		return Machine{}, err
	}
	if m.Devices, err = ownDevices(m.UID); err != nil {
		return Machine{}, err
	}
	if m.Private, err = privateHere(); err != nil {
		return Machine{}, err
	}
	return probeProc(m)
}

// runsMemfd asks whether files without a name may be executed:
// vm.memfd_noexec, Linux 6.3. With 2 they may not be made for that.
func runsMemfd() (bool, error) {
	b, err := os.ReadFile("/proc/sys/vm/memfd_noexec")
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot learn what a memfd may be: %w", err)
	}
	s := strings.TrimSpace(string(b))
	return s == "0" || s == "1", nil
}

// probeNotify learns whether the supervisor can answer system calls.
func probeNotify(m *Machine) {
	if err := notify.Available(); err != nil {
		m.NotifyWhy = err.Error()
		return
	}
	m.Notify = true
	if err := notify.CanTellSockets(); err != nil {
		m.SocketsWhy = err.Error()
	}
}

// landlockABI asks the kernel for its version of Landlock: landlock(7). The
// errors are those of a kernel built without it, and booted without it.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(abi), nil
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return 0, nil
	}
	return 0, fmt.Errorf("cannot learn the version of Landlock: %w", errno)
}

// look is the kind and identity of what stands at a path.
func look(p string) (fs.FileInfo, guard.FileID, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return nil, guard.FileID{}, fmt.Errorf("cannot look at %q: %w", p, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, guard.FileID{}, fmt.Errorf("internal error: no stat of %q", p)
	}
	return info, guard.FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

// privateHere are the temporary directories that can be mounted over.
func privateHere() ([]string, error) {
	var dirs []string
	for _, p := range []string{"/tmp", "/var/tmp"} {
		real, err := filepath.EvalSymlinks(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot resolve %q: %w", p, err)
		}
		if real == p {
			dirs = append(dirs, p)
		}
	}
	return dirs, nil
}

// probeProc finds what of /proc belongs to no process.
func probeProc(m Machine) (Machine, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return Machine{}, fmt.Errorf("cannot list /proc: %w", err)
	}
	for _, d := range names {
		if d.Type()&fs.ModeSymlink != 0 || strings.Trim(d.Name(), "0123456789") == "" {
			continue
		}
		if m, err = sortProc(m, d.Name()); err != nil {
			return Machine{}, err
		}
	}
	if len(m.ProcReadOnly) == 0 {
		return Machine{}, errors.New("cannot find /proc/sys")
	}
	return m, nil
}

// sortProc decides about one entry of /proc: masked, read-only, or as it is.
// The files of root are root's command's without any capability: it could write
// those whose mode lets it, and give any another mode, which is the host's then.
// They are closed to everybody else where their mode says so.
func sortProc(m Machine, name string) (Machine, error) {
	masked := slices.ContainsFunc(procMasks, func(p procMask) bool {
		return p.name == name && (!p.root || m.UID == 0)
	})
	if !masked && name != "sys" && m.UID != 0 {
		return m, nil
	}
	info, id, err := look("/proc/" + name)
	if err != nil {
		return Machine{}, err
	}
	e := ProcEntry{Path: "/proc/" + name, Dir: info.IsDir(), ID: id}
	switch {
	case masked && isClosed(info, m.UID):
	case masked:
		m.ProcMasks = append(m.ProcMasks, e)
	default:
		m.ProcReadOnly = append(m.ProcReadOnly, e)
	}
	return m, nil
}

// ownDevices are the devices of bubblewrap's /dev, where the command's user owns
// them: root could give them another mode, and that on the host.
func ownDevices(uid int) ([]ProcEntry, error) {
	if uid != 0 {
		return nil, nil
	}
	var list []ProcEntry
	for _, p := range devNodes {
		_, id, err := look(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // bubblewrap says so
		}
		if err != nil {
			return nil, err
		}
		list = append(list, ProcEntry{Path: p, ID: id})
	}
	return list, nil
}

// isClosed: a mount less, where another user's file answers EACCES by itself.
func isClosed(info fs.FileInfo, uid int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != uid && info.Mode().Perm()&0o077 == 0
}
