package supervise

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// memfdFlags are what every file has.
const memfdFlags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING

// Memfd is an anonymous file that holds b at offset zero, sealed for good. It
// never blocks its reader, and outlives a supervisor that is killed, which a
// pipe would not.
func Memfd(name string, b []byte) (int, error) {
	return FillMemfd(name, func(w io.Writer) (int64, error) {
		n, err := w.Write(b)
		return int64(n), err
	})
}

// FillMemfd is [Memfd] for what writes itself.
func FillMemfd(name string, write func(io.Writer) (int64, error)) (int, error) {
	fd, err := NewMemfd(name)
	if err != nil {
		return -1, err
	}
	return filled(fd, name, write)
}

// FillProgram is [FillMemfd] for what is to be executed, as far as the machine
// allows that of such a file (vm.memfd_noexec, Linux 6.3).
func FillProgram(name string, write func(io.Writer) (int64, error)) (int, error) {
	fd, err := unix.MemfdCreate(name, memfdFlags|unix.MFD_EXEC)
	if err != nil {
		return FillMemfd(name, write)
	}
	return filled(fd, name, write)
}

// filled fills a file and seals it.
func filled(fd int, name string, write func(io.Writer) (int64, error)) (int, error) {
	_, err := write(&filler{fd: fd})
	if err == nil {
		err = Seal(fd, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot fill memfd %q: %w", name, err)
	}
	return fd, nil
}

// NewMemfd makes a file that can't be executed where the kernel lets one say
// so (MFD_NOEXEC_SEAL, Linux 6.3; EINVAL before).
func NewMemfd(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, memfdFlags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, memfdFlags)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make memfd %q: %w", name, err)
	}
	return fd, nil
}

// sealTries bounds how often a seal is asked for. The kernel waits 150 ms each
// time.
const sealTries = 20

// Seal adds seals to a file. F_SEAL_WRITE is refused (EBUSY, F_ADD_SEALS in
// fcntl(2)) while anybody holds a page of the file, and for a moment that can
// be the kernel itself: it ages pages (DAMON), moves them (compaction), or
// keeps them in a list of a processor that is busy (mm/memfd.c, Linux 6.18).
func Seal(fd, seals int) error {
	var err error
	for range sealTries {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return fmt.Errorf("cannot seal a memfd: %w", err)
}

// filler writes to a file and leaves its offset at zero, for whoever reads it.
type filler struct {
	fd  int
	off int64
}

// Write writes all of b behind what was written before.
func (f *filler) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pwrite(f.fd, b[done:], f.off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		done, f.off = done+n, f.off+int64(n)
	}
	return done, nil
}
