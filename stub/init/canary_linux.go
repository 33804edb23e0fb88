package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// maxCanaries bounds the paths that are tried, to keep a launch short; of more
// every so many-th is. An ordinary policy has a few dozen.
const maxCanaries = 256

// probeName is a name that nothing has. It is never made: see [makeDevice].
const probeName = "/.pinfold-canary"

// canaries is one run over what the plan claims, as the command would meet it:
// every layer is in force by now.
type canaries struct {
	setup *wire.Setup
	count wire.Canaries
}

// try tries the claims. The first that doesn't hold refuses the launch.
func try(s *wire.Setup) *wire.Failure {
	began := now()
	c := &canaries{setup: s}
	stride := (len(s.Checks) + maxCanaries - 1) / maxCanaries
	for i := range s.Checks {
		if stride > 1 && i%stride != 0 {
			c.count.Left++
			continue
		}
		if f := c.path(&s.Checks[i]); f != nil {
			return f
		}
	}
	for i := range s.Calls {
		if f := c.call(&s.Calls[i]); f != nil {
			return f
		}
	}
	if f := c.host(); f != nil {
		return f
	}
	c.count.Micros = int(now() - began)
	if err := sendPacket(wire.EncodeTried(c.count), nil); err != nil {
		return failed(wire.StepCanary, "", "cannot tell the supervisor", err)
	}
	return nil
}

// now is a clock in microseconds. It can't fail, clock_gettime(2).
func now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return int64(ts.Sec)*1e6 + int64(ts.Nsec)/1e3
}

// surprise is a claim that doesn't hold.
func surprise(path, text string, err error) *wire.Failure {
	return failed(wire.StepCanary, path, text, err)
}

// path tries what is claimed of one path, which was looked at before.
func (c *canaries) path(k *wire.Check) *wire.Failure {
	switch k.Kind {
	case wire.CheckAbsent:
		return c.denied(k.Path)
	case wire.CheckEmptyDir, wire.CheckEmptyFile, wire.CheckPassDir:
		if k.Mode&0o444 == 0 {
			return c.denied(k.Path)
		}
		return c.readOnly(k.Path)
	case wire.CheckBind:
		switch {
		case k.ReadOnly && isMachines(k.Path):
			return c.mode(k.Path)
		case k.ReadOnly:
			return c.readOnly(k.Path)
		}
		return c.writable(k.Path)
	case wire.CheckPrivateDir:
		return c.writable(k.Path)
	}
	return surprise(k.Path, "nobody knows what is claimed of it", nil)
}

// denied: opening must fail because of what stands there, or doesn't.
func (c *canaries) denied(path string) *wire.Failure {
	fd, err := open(path, unix.O_RDONLY)
	switch err {
	case unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENOTDIR:
		c.count.Denied++
		return nil
	case nil:
		unix.Close(fd)
		return surprise(path, "is denied, and can be opened", nil)
	}
	return surprise(path, "is denied, and opening it doesn't say so", err)
}

// open never waits: for a writer of a FIFO, or for a lease to be broken.
func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// readOnly: nothing can be made in a directory, nor a file opened for writing.
// Devices, FIFOs and sockets stay alone: a mount doesn't hold writes to them,
// and opening one may do something.
func (c *canaries) readOnly(path string) *wire.Failure {
	err := c.write(path)
	switch err {
	case unix.EROFS, unix.EACCES:
		c.count.ReadOnly++
		return nil
	case errNoFile:
		c.count.Left++
		return nil
	case nil:
		return surprise(path, "is read-only, and can be written", nil)
	}
	return surprise(path, "is read-only, and writing to it doesn't say so", err)
}

// isMachines: what lies in /proc and /dev is the machine's. It isn't opened, which
// may do something, nor do the modes of most let anybody write it.
func isMachines(path string) bool {
	return starts(path, "/proc/") || starts(path, "/dev/") && !starts(path, "/dev/shm/")
}

func starts(s, with string) bool { return len(s) > len(with) && s[:len(with)] == with }

// mode: nothing can be given another mode. The one that it has changes nothing.
func (c *canaries) mode(path string) *wire.Failure {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil {
		err = unix.Chmod(path, st.Mode&0o7777)
	}
	switch err {
	case unix.EROFS:
		c.count.ReadOnly++
		return nil
	case nil:
		return surprise(path, "is read-only, and can be given a mode", nil)
	}
	return surprise(path, "is read-only, and giving it a mode doesn't say so", err)
}

// writable: no layer takes a write grant away. What the caller may not write
// on the host either isn't a layer's doing.
func (c *canaries) writable(path string) *wire.Failure {
	err := c.write(path)
	switch {
	case err == nil, err == unix.EWOULDBLOCK:
		c.count.Writable++
		return nil
	case err == errNoFile,
		err == unix.EACCES && unix.Access(path, unix.W_OK) == unix.EACCES,
		err == unix.EROFS && c.onHost(path):
		c.count.Left++
		return nil
	}
	return surprise(path, "is granted for writing, and can't be written", err)
}

func (c *canaries) onHost(path string) bool {
	for _, p := range c.setup.HostReadOnly {
		if p == path {
			return true
		}
	}
	return false
}

// errNoFile is neither a directory nor a regular file.
const errNoFile = unix.Errno(unix.EMEDIUMTYPE)

// write tries to write, and changes nothing: nil means that it could.
func (c *canaries) write(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return makeDevice(path)
	case unix.S_IFREG:
		fd, err := open(path, unix.O_WRONLY)
		if err == nil {
			unix.Close(fd)
		}
		if err == unix.ETXTBSY { // it runs, which the kernel sees before the mount
			return unix.Access(path, unix.W_OK)
		}
		return err
	}
	return errNoFile
}

// makeDevice asks for a device node in a directory. The kernel looks at the
// mount (EROFS), at Landlock and at the modes (EACCES) before it says EPERM,
// since the capability for that is one that nobody inside has: whatever comes,
// nothing is made. A name that is taken is answered by the modes alone.
func makeDevice(dir string) error {
	if dir == "/" {
		dir = ""
	}
	err := unix.Mknod(dir+probeName, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	switch err {
	case unix.EPERM:
		return nil
	case unix.EEXIST, unix.ENOENT: // procfs knows no names but its own
		return unix.Access(dir+"/", unix.W_OK)
	}
	return err
}

// call makes one system call that does nothing by itself.
func (c *canaries) call(k *wire.Call) *wire.Failure {
	got, _, errno := unix.RawSyscall6(uintptr(k.Number), uintptr(k.Args[0]), uintptr(k.Args[1]),
		uintptr(k.Args[2]), uintptr(k.Args[3]), uintptr(k.Args[4]), uintptr(k.Args[5]))
	if errno == 0 && k.Errno == 0 {
		unix.Close(int(got))
	}
	if uint32(errno) != k.Errno {
		return surprise("", "the filter lets "+k.Name+" through, or refuses it, unlike its rules", errno)
	}
	c.count.Calls++
	return nil
}

// host: no datagram leaves, since the network namespace has no way out. The
// address is one of those for documentation (RFC 5737), which nobody has.
func (c *canaries) host() *wire.Failure {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return surprise("", "a datagram socket can't be made", err)
	}
	defer unix.Close(fd)
	err = unix.Sendto(fd, nil, unix.MSG_NOSIGNAL, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 9})
	if err != unix.ENETUNREACH {
		return surprise("", "an address that isn't granted can be reached", err)
	}
	c.count.Hosts++
	return nil
}
