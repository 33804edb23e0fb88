package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// memDevice is the major number of the kernel's memory devices, null(4).
const memDevice = 1

// memDevices are those of /dev that a launch has, by minor number.
var memDevices = map[uint32]string{3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 8: "/dev/random", 9: "/dev/urandom"}

// placeDevices puts the launch's own device in place of the host's where that is
// a standard stream. Its owner, root, could give it another mode and another
// time by the descriptor alone, which would be the host's: fchmod(2) asks for a
// writable mount, and the descriptor's is the one that it was opened by.
func placeDevices() *wire.Failure {
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			continue // closed
		}
		path := memDevices[unix.Minor(st.Rdev)]
		if st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != memDevice || path == "" || st.Uid != uint32(unix.Getuid()) {
			continue
		}
		if err := reopen(fd, path, st.Rdev); err != nil {
			return failed(wire.StepClose, path, "cannot put the launch's own device in place of a standard stream", err)
		}
	}
	return nil
}

// reopen opens a device as a descriptor has it open, in its place.
func reopen(fd int, path string, device uint64) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	own, err := unix.Open(path, flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_NONBLOCK)|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != device {
		return unix.ENODEV
	}
	return unix.Dup3(own, fd, 0)
}
