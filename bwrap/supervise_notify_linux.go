package bwrap

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/notify"
	"pinfold/stub/wire"
)

// sortSockets gives the sockets that the stub made to whom they are for. It
// owns them all, whatever it returns.
func (s *launcher) sortSockets(fds []int, o *notify.Options) error {
	var errs []error
	for i, fd := range fds {
		want := s.setup.Sockets[i]
		if err := checkSocket(fd, want); err != nil {
			errs = append(errs, err)
			closeFD(&fd)
			continue
		}
		o.Diag = fd
	}
	return errors.Join(errs...)
}

// checkSocket checks that a descriptor is a fresh socket of a kind.
func checkSocket(fd int, want wire.Socket) error {
	for _, o := range []struct {
		name      string
		opt, want int
	}{
		{"domain", unix.SO_DOMAIN, want.Domain},
		{"type", unix.SO_TYPE, want.Type},
		{"protocol", unix.SO_PROTOCOL, want.Protocol},
		{"state", unix.SO_ACCEPTCONN, 0},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.opt)
		if err != nil {
			return fmt.Errorf("cannot check a socket: %w", err)
		}
		if got != o.want {
			return fmt.Errorf("a socket is something else: its %s is %d, not %d", o.name, got, o.want)
		}
	}
	return nil
}

// answer starts answering the second filter. If that ends before the run
// does, no connection can be made any more: that is no hole, but worth a line.
func (s *launcher) answer() {
	p := s.Process
	if p.engine == nil {
		return
	}
	p.serving.Go(func() {
		err := p.engine.Run()
		if err == nil {
			return
		}
		if p.o.Notice != nil {
			p.o.Notice(fmt.Sprintf("the command can make no more connections: %v", err))
		}
		if p.o.Events != nil {
			p.o.Events.Emit(event.Event{
				Time: time.Now(), Run: p.o.Run, Kind: event.Network, Action: event.Noticed, Reason: "notify_ended",
			})
		}
	})
}
