package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// The write side of Landlock's rights, landlock(7). Reading and executing are
// the mounts' business alone, and ioctl on devices (version 5) stays out: a
// terminal opened inside must keep working.
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	dirRights  = fileRights |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

	abiTruncate = 3 // Linux 6.2
	abiScope    = 6 // Linux 6.12
)

// A ruleset is one Landlock ruleset being built.
type ruleset struct {
	fd   int
	file uint64 // the rights of a rule for a file
	dir  uint64 // the rights of a rule for a directory
}

// restrict applies the second layer: nothing outside the write grants can be
// written, whatever the mount table says now or later.
func restrict(l *wire.Landlock) *wire.Failure {
	if !l.Enabled {
		return nil
	}
	rs, f := newRuleset(l.Scope)
	if f != nil {
		return f
	}
	for _, list := range [][]string{l.Writable, l.WriteFiles} {
		for _, path := range list {
			if err := rs.allowPath(path); err != nil {
				return failed(wire.StepLandlock, path, "cannot allow writes", err)
			}
		}
	}
	if err := rs.allowStreams(); err != nil {
		return failed(wire.StepLandlock, "", "cannot allow writes to a standard stream", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rs.fd), 0, 0); errno != 0 {
		return failed(wire.StepLandlock, "", "cannot apply the ruleset", errno)
	}
	unix.Close(rs.fd)
	return nil
}

// newRuleset handles exactly the rights that the kernel's version knows.
func newRuleset(scope bool) (*ruleset, *wire.Failure) {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil, failed(wire.StepLandlock, "", "the kernel has no Landlock", errno)
	}
	if abi < wire.LandlockABI || scope && abi < abiScope {
		return nil, failed(wire.StepLandlock, "", "the kernel's Landlock is version "+itoa(uint64(abi))+", too old for what was ordered", nil)
	}
	rs := &ruleset{file: fileRights, dir: dirRights}
	if abi >= abiTruncate {
		rs.file |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
		rs.dir |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rs.dir}
	size := unsafe.Offsetof(attr.Handled_access_net) // all that the oldest version takes
	if scope {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, failed(wire.StepLandlock, "", "cannot make a ruleset", errno)
	}
	rs.fd = int(fd)
	return rs, nil
}

// allowPath adds one writable directory, or file, that no link leads to.
func (rs *ruleset) allowPath(path string) error {
	fd, err := openPath(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return rs.allow(fd)
}

// allowStreams lets the command reopen for writing (`> /dev/stderr`) what it
// holds open for writing anyway. Pipes and sockets need no rule, and have no
// path to make one from: EBADFD.
func (rs *ruleset) allowStreams() error {
	for fd := range 3 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == unix.EBADF || err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
			continue // closed, or not for writing
		}
		if err != nil {
			return err
		}
		if err := rs.allow(fd); err != nil && err != unix.EBADFD {
			return err
		}
	}
	return nil
}

// allow adds a rule for what the descriptor names. A rule on a file may hold
// file rights alone.
func (rs *ruleset) allow(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rs.file, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.Allowed_access = rs.dir
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rs.fd),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
