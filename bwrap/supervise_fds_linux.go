package bwrap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
	"pinfold/supervise"
)

// stderrFD is where the command's own standard error travels, beside the
// stub's setup and its control socket.
const stderrFD = wire.ControlFD + 1

// stubFD is the stub's own file, where it has no path: see [StubFile].
const stubFD = stderrFD + 1

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

// capture is a file for bubblewrap's standard error that holds captureSize
// bytes and can't be made to hold more. A pipe would need a reader, and its
// writer would die of SIGPIPE when the supervisor does, at a moment when
// bubblewrap's child waits for it and would wait forever.
func capture() (int, error) {
	fd, err := supervise.NewMemfd("stderr")
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, captureSize); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("cannot size a memfd: %w", err)
	}
	if err := supervise.Seal(fd, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
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
func handData(in *inherited, l *Launch, data *filling) ([]string, error) {
	fds, err := data.take()
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]string, len(fds))
	for i := range fds {
		i = (i + len(fds) - 1) % len(fds) // the stub is the last
		numbers[fdName(data.of[i].Name)] = strconv.Itoa(in.own(fds[i]))
	}
	if l.Stub == StubFile && numbers[fdName(DataStub)] != strconv.Itoa(stubFD) {
		return nil, errors.New("internal error: the stub isn't where bubblewrap looks for it")
	}
	out, err := withoutLater(l.Args, l.later)
	if err != nil {
		return nil, err
	}
	for i, a := range out {
		if n, ok := numbers[a]; ok {
			a = n
		} else if strings.HasPrefix(a, "{fd:") {
			return nil, fmt.Errorf("internal error: argument %d names %q, which the launch lacks", i, a)
		}
		out[i] = a
	}
	return out, nil
}
