package bwrap

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// stderrFD is where the command's own standard error travels, beside the
// stub's setup and its control socket.
const stderrFD = wire.ControlFD + 1

// captureSize bounds what is kept of bubblewrap's own messages. The file
// can't grow past it, whoever writes.
const captureSize = 64 << 10

// inherited are the descriptors that bubblewrap gets, by their number there,
// and the ones to close here once it has them.
type inherited struct {
	fds   []int
	owned []int
}

// add hands on a descriptor that is someone else's to close.
func (in *inherited) add(fd int) int {
	in.fds = append(in.fds, fd)
	return len(in.fds) - 1
}

// own hands on a descriptor and closes it with the rest.
func (in *inherited) own(fd int) int {
	in.owned = append(in.owned, fd)
	return in.add(fd)
}

func (in *inherited) close() {
	for _, fd := range in.owned {
		unix.Close(fd)
	}
	in.owned = nil
}

// files are the descriptors in the form of syscall.ProcAttr.
func (in *inherited) files() []uintptr {
	out := make([]uintptr, len(in.fds))
	for i, fd := range in.fds {
		out[i] = uintptr(fd)
	}
	return out
}

// memfd is an anonymous file that holds b at offset zero, sealed for good. It
// never blocks its reader, and outlives a supervisor that is killed, which a
// pipe would not.
func memfd(name string, b []byte) (int, error) {
	return filledMemfd(name, func(w io.Writer) (int64, error) {
		n, err := w.Write(b)
		return int64(n), err
	})
}

// filledMemfd is memfd for what writes itself.
func filledMemfd(name string, write func(io.Writer) (int64, error)) (int, error) {
	fd, err := newMemfd(name)
	if err != nil {
		return -1, err
	}
	if _, err = write(&filler{fd: fd}); err == nil {
		err = seal(fd, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot fill memfd %q: %w", name, err)
	}
	return fd, nil
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

// capture is a file for bubblewrap's standard error that holds captureSize
// bytes and can't be made to hold more. A pipe would need a reader, and its
// writer would die of SIGPIPE when the supervisor does, at a moment when
// bubblewrap's child waits for it and would wait forever.
func capture() (int, error) {
	fd, err := newMemfd("stderr")
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, captureSize); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot size a memfd: %w", err)
	}
	if err := seal(fd, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// captured reads what was written so far: everything up to the first NUL.
func captured(fd int) string {
	b := make([]byte, captureSize)
	n, err := unix.Pread(fd, b, 0)
	if err != nil || n < 0 {
		return ""
	}
	s, _, _ := strings.Cut(string(b[:n]), "\x00")
	return s
}

// newMemfd makes a file that can't be executed where the kernel lets one say
// so (MFD_NOEXEC_SEAL, Linux 6.3; EINVAL before).
func newMemfd(name string) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("cannot make memfd %q: %w", name, err)
	}
	return fd, nil
}

func seal(fd, seals int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("cannot seal a memfd: %w", err)
	}
	return nil
}

// devNull opens /dev/null; flag is O_RDONLY or O_WRONLY.
func devNull(flag int) (int, error) {
	fd, err := unix.Open("/dev/null", flag|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open /dev/null: %w", err)
	}
	return fd, nil
}

// closeOnExec marks every descriptor past the standard ones, since bubblewrap
// would pass on whatever this process inherited without the mark. Go's own
// have it already.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // before Linux 5.9, 5.11
		err = closeEachOnExec()
	}
	if err != nil {
		return fmt.Errorf("cannot keep inherited descriptors from bubblewrap: %w", err)
	}
	return nil
}

// handData makes one descriptor for each datum, and returns the arguments
// with their numbers in place of their names.
func handData(in *inherited, args []string, data *filling) ([]string, error) {
	fds, err := data.take()
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]string, len(fds))
	for i, fd := range fds {
		numbers[fdName(data.of[i].Name)] = strconv.Itoa(in.own(fd))
	}
	out := make([]string, len(args))
	for i, a := range args {
		if n, ok := numbers[a]; ok {
			a = n
		} else if strings.HasPrefix(a, "{fd:") {
			return nil, fmt.Errorf("internal error: argument %d names %q, which the launch lacks", i, a)
		}
		out[i] = a
	}
	return out, nil
}
