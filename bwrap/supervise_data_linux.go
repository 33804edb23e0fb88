package bwrap

import (
	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// filling are files for bubblewrap that are being filled while the launch is
// written down: the stub alone is a million and a half bytes.
type filling struct {
	of     []Datum
	ahead  *Ahead // nil, or it may have the stub
	fds    []int
	empty  int // one of them that holds nothing, or -1
	filter int // hangs up when the filter has been read; -1 if nothing tells
	err    error
	done   chan struct{}
}

func fillSoon(data []Datum, a *Ahead) *filling {
	f := &filling{of: data, ahead: a, empty: -1, filter: -1, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for i := range data {
			fd, err := f.hold(&data[i])
			if err != nil {
				f.err = err
				return
			}
			f.fds = append(f.fds, fd)
		}
	}()
	return f
}

func (f *filling) hold(d *Datum) (int, error) {
	switch {
	case d.Name == DataSeccomp:
		if fd, end, err := oneReading(d.Content); err == nil {
			f.filter = end
			return fd, nil
		}
	case d.Name == DataStub:
		if fd := f.takeStub(d); fd >= 0 {
			return fd, nil
		}
		return supervise.FillProgram(d.Name, d.WriteTo)
	case d.size() == 0:
		return f.holdNothing(d)
	}
	return supervise.FillMemfd(d.Name, d.WriteTo)
}

// holdNothing is an empty file: most covers are, and bubblewrap only reads
// them, so that one serves for all.
func (f *filling) holdNothing(d *Datum) (int, error) {
	if f.empty >= 0 {
		return unix.FcntlInt(uintptr(f.empty), unix.F_DUPFD_CLOEXEC, 3)
	}
	fd, err := supervise.FillMemfd(d.Name, d.WriteTo)
	f.empty = fd
	return fd, err
}

// takeStub is the stub as it was held ahead, if it is that one; else -1.
func (f *filling) takeStub(d *Datum) int {
	if d.file == nil {
		return -1
	}
	return f.ahead.takeStub()
}

// oneReading is a socket with b to be read from it, up to its end. The other one
// hangs up when the first was closed by all who had it.
func oneReading(b []byte) (fd, end int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	n, err := unix.SendmsgN(pair[1], b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if err == nil && n < len(b) {
		err = unix.EMSGSIZE // net.core.wmem_default is tiny
	}
	if err == nil {
		err = unix.Shutdown(pair[1], unix.SHUT_WR)
	}
	if err != nil {
		closeAll(pair[:])
		return -1, -1, err
	}
	return pair[0], pair[1], nil
}

// take waits for the files, which are the caller's from then on: one for each
// datum, in their order, or none.
func (f *filling) take() ([]int, error) {
	<-f.done
	if f.err != nil {
		return nil, f.err
	}
	fds := f.fds
	f.fds = nil
	return fds, nil
}

// filterRead hands over the descriptor that hangs up, or -1.
func (f *filling) filterRead() int {
	<-f.done
	fd := f.filter
	f.filter = -1
	return fd
}

// close ends what nobody has taken.
func (f *filling) close() {
	if f == nil {
		return
	}
	<-f.done
	closeAll(f.fds)
	f.fds = nil
	closeFD(&f.filter)
}
