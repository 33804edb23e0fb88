package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/policy"
)

// eventsGrace is how long the end of a run waits for whoever reads events.
const eventsGrace = 2 * time.Second

// openEvents starts writing events where --events says.
func (r *oneRun) openEvents(g *guard.Grant) error {
	if r.options.events == "" {
		return nil
	}
	f, err := openOutput(r.options.events, g)
	if err != nil {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "events_unwritable", Subject: r.options.events, Err: err,
			Why: fmt.Sprintf("cannot write events to %q: %v", r.options.events, cause(err)),
			Fix: "name a file outside everything that the command may write, or fd:N with N open for writing",
		}
	}
	if filepath.IsAbs(f.Name()) {
		r.eventsPath = f.Name()
	}
	r.events = event.NewWriter(f, event.Options{Run: r.name, Level: r.options.level})
	r.closers = append(r.closers, func() error {
		err := r.events.CloseTimeout(eventsGrace)
		if f.Fd() > 2 { // our own streams have more to say
			err = errors.Join(err, f.Close())
		}
		return err
	})
	return nil
}

// openOutput opens FILE or fd:N for a report that the command must not be
// able to rewrite or redirect.
func openOutput(name string, g *guard.Grant) (*os.File, error) {
	if number, ok := strings.CutPrefix(name, "fd:"); ok {
		return inheritedFile(number)
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.Base(abs))
	if g.Writable(path) {
		return nil, errors.New("the command may write there")
	}
	// O_NONBLOCK: a FIFO without a reader is an error, not a wait.
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

// inheritedFile takes over a descriptor that the caller opened. One that is
// closed on exec is none of the caller's: it is this process's own.
func inheritedFile(number string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("%q is no descriptor", number)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, fmt.Errorf("descriptor %d isn't open", fd)
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("descriptor %d isn't open for writing", fd)
	}
	if fd > 2 {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fd), "fd:"+number), nil
}
