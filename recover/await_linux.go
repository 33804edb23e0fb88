package recover

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// await waits until a process has ended: its pidfd is readable then.
func (p *process) await(ctx context.Context) error {
	if err := readable(ctx, -1, p.pidfd); err != nil {
		return fmt.Errorf("cannot wait for process %d: %w", p.pid, err)
	}
	return nil
}

// readable waits for one of some descriptors to be readable, for ctx to end, or
// for some milliseconds to pass, which is no error; -1 is no bound.
func readable(ctx context.Context, timeout int, list ...int) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(wake)
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-told // the descriptor is closed next
		}
	}()
	fds := []unix.PollFd{{Fd: int32(wake), Events: unix.POLLIN}}
	for _, fd := range list {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		n, err := unix.Poll(fds, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 1 && fds[0].Revents != 0:
			return ctx.Err()
		}
		return nil
	}
}

// lockCheck is how often a launch that is starting is asked whether it still
// is: that its supervisor was killed changes nothing in the record's
// directory.
const lockCheck = 250 // milliseconds

// OpenStarted is [Open] for a record whose launch may have begun just now: it
// waits until that runs, or has failed to.
func OpenStarted(ctx context.Context, record string) (*Run, error) {
	watch, err := watchRecord(record)
	if err != nil {
		return nil, err
	}
	defer unix.Close(watch)
	for {
		r, err := Open(record)
		if err != nil || r.State() != Starting {
			return r, err
		}
		r.Close()
		if err := readable(ctx, lockCheck, watch); err != nil {
			return nil, unclear("the launch is still starting: %v", err)
		}
		drain(watch)
	}
}

// watchRecord tells when a file of a record appears, which is by renaming.
func watchRecord(record string) (int, error) {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("cannot watch record %q: %w", record, err)
	}
	if _, err := unix.InotifyAddWatch(watch, record, unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW); err != nil {
		unix.Close(watch)
		return -1, fmt.Errorf("cannot read record %q: %w", record, err)
	}
	return watch, nil
}

// settle waits until the sandbox has gone and its end is recorded, or nobody
// is left to do so. The supervisor itself may live on: in a program that uses
// the packages it is the program.
func (r *Run) settle(ctx context.Context) error {
	watch, err := watchRecord(r.stored.Path)
	if err != nil {
		return err
	}
	defer unix.Close(watch)
	for _, p := range []*process{r.bwrap, r.init} {
		if p == nil {
			continue
		}
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	for {
		ended := r.supervisor == nil || r.supervisor.alive() != nil
		s, err := plan.ReadRecord(r.stored.Path)
		if err != nil {
			return err
		}
		if s.Exit != nil {
			r.stored = s
			return nil
		}
		if ended {
			return nil
		}
		if err := readable(ctx, -1, watch, r.supervisor.pidfd); err != nil {
			return err
		}
		drain(watch)
	}
}

// drain takes the events, of which the fact alone counts.
func drain(watch int) {
	var buf [4096]byte
	for {
		if n, err := unix.Read(watch, buf[:]); n <= 0 || err != nil {
			return
		}
	}
}
