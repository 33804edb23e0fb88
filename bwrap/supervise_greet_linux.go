package bwrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/notify"
	"pinfold/plan"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// greet takes the stub's Hello with all that comes along.
func (s *launcher) greet(ctx context.Context) error {
	stop := s.Process.control.until(ctx)
	defer stop()
	pk, err := s.Process.control.receive()
	if err != nil {
		return s.brokeOff(ctx, err)
	}
	s.monitor.settled = true
	defer pk.close()
	if err := pk.failure(); err != nil {
		return err
	}
	g, err := wire.DecodeHello(pk.body)
	if err != nil {
		return s.stubError("the stub's greeting is wrong", err)
	}
	want := wire.Greeting{
		Version: wire.Version, Listeners: len(s.setup.Listen), Sockets: len(s.setup.Sockets),
		TTY: s.setup.TTY != 0, Filter: len(s.setup.Filter) > 0,
	}
	if g != want || len(pk.fds) != g.Descriptors() || pk.cred == nil {
		return s.stubError("the stub's greeting isn't what was asked for", nil)
	}
	if s.family, err = meet(s.monitor, int(pk.cred.Pid)); err != nil {
		s.family = &family{initFD: -1, stubFD: -1}
		return s.stubError("the greeting came from somewhere else", err)
	}
	s.commandFD, s.commandPID = s.family.stubFD, s.family.stub.pid
	return s.takeAll(pk)
}

// takeAll takes the descriptors of a Hello, in the order that it has them in.
func (s *launcher) takeAll(pk *packet) error {
	for _, address := range s.setup.Listen {
		l, err := supervise.TakeListener(pk.take(), address)
		if err != nil {
			return s.stubError("a listener isn't what was asked for", err)
		}
		s.listeners = append(s.listeners, l)
	}
	sockets := s.takeSockets(pk)
	if err := s.takeTerminal(pk); err != nil {
		closeAll(sockets)
		return err
	}
	o := notify.Options{Listener: -1, Diag: -1, Witness: -1}
	if err := s.sortSockets(sockets, &o); err != nil {
		closeAll([]int{o.Diag, o.Witness})
		return s.stubError("a socket isn't what was asked for", err)
	}
	return s.takeFilter(pk, o)
}

// takeSockets takes the sockets that the stub made for this side.
func (s *launcher) takeSockets(pk *packet) []int {
	var fds []int
	for range s.setup.Sockets {
		fds = append(fds, pk.take())
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		closeFD(&fd)
	}
}

// takeTerminal takes the terminal's master, where there is one.
func (s *launcher) takeTerminal(pk *packet) error {
	if s.setup.TTY == 0 {
		return nil
	}
	master, err := prepareMaster(pk.fds[0], s.term)
	if err != nil {
		return s.stubError("the terminal isn't what was asked for", err)
	}
	pk.take()
	if s.relay, err = newRelay(s.term, master); err != nil {
		master.Close()
		return err
	}
	return nil
}

// takeFilter makes the one that answers what the second filter hands over.
func (s *launcher) takeFilter(pk *packet, o notify.Options) error {
	if len(s.setup.Filter) == 0 {
		return nil
	}
	o.Listener = pk.take()
	o.Sockets, o.AllSockets = s.launch.Sockets, s.launch.AllSockets
	o.Events, o.AllFlows, o.Run = s.o.Events, s.o.AllFlows, s.o.Run
	if s.launch.Transparent {
		o.Inet = s.route
	}
	var err error
	if s.engine, err = notify.New(o); err != nil {
		return s.stubError("system calls can't be answered", err)
	}
	return nil
}

// letGo lets the stub compare and try once everything that the command needs
// is there and watched, and become the command once everything that must be
// known about it is written down, which takes about as long.
func (s *launcher) letGo(ctx, serving context.Context) error {
	if err := s.watchBoundary(ctx); err != nil {
		return err
	}
	if err := s.serveAll(ctx, serving); err != nil {
		return err
	}
	s.servePorts(context.WithoutCancel(serving))
	s.answer()
	if err := s.compare(ctx); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() { written <- s.writeRoot(ctx) }()
	tried, err := s.awaitTried(ctx)
	if err = cmp.Or(err, <-written); err != nil { // of a stub that has ended, the first one says more
		return err
	}
	if s.relay != nil {
		s.relay.start()
		s.released = true
	}
	s.forwarder.Hold()
	if err := s.goOn(ctx); err != nil {
		return err
	}
	if err := cmp.Or(supervise.NoteTried(s.o.Record, tried), s.awaitCommand(ctx)); err != nil {
		return err
	}
	s.relay.open()
	return nil
}

// compare lets the stub compare, unless it does already.
func (s *launcher) compare(ctx context.Context) error {
	if s.compares {
		return nil
	}
	return s.goOn(ctx)
}

// goOn lets the stub take its next steps.
func (s *launcher) goOn(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Process.control.sendGo(); err != nil {
		return s.brokeOff(ctx, err)
	}
	return nil
}

// writeRoot writes down what runs, as soon as it can't outlive this process.
func (s *launcher) writeRoot(ctx context.Context) error {
	st, err := s.family.armed(ctx)
	if err != nil {
		return s.stubError("bubblewrap isn't ready", err)
	}
	s.boundary.helpers.Wait() // from here on bubblewrap is this process's only child
	if s.o.Record == nil {
		return nil
	}
	root, err := s.family.root(s.monitor, st, s.digest)
	if err != nil {
		return err
	}
	root.Landlock = s.setup.Landlock.Enabled
	root.Terminal = s.setup.TTY&wire.TTYStdin != 0
	for _, f := range s.o.Fresh {
		if root.Fresh == nil {
			root.Fresh = map[string]string{}
		}
		root.Fresh[f.Name] = f.Path
	}
	return s.o.Record.WriteRoot(root)
}

// serveAll starts serving: the sockets listen already, so from here on each
// connection is answered.
func (s *launcher) serveAll(ctx, serving context.Context) error {
	if s.outcome == nil {
		return nil
	}
	select {
	case r := <-s.outcome:
		s.outcome = nil
		if r.err != nil {
			return fmt.Errorf("cannot make the proxy: %w", r.err)
		}
		s.egress = r.egress
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, l := range s.listeners {
		s.serve(context.WithoutCancel(serving), l)
	}
	return s.serveTransparent(context.WithoutCancel(serving))
}

// awaitTried waits for the stub to say that all is as ordered, and holds.
func (s *launcher) awaitTried(ctx context.Context) (plan.Tried, error) {
	stop := s.Process.control.until(ctx)
	defer stop()
	pk, err := s.Process.control.receive()
	if err != nil {
		return plan.Tried{}, s.brokeOff(ctx, err)
	}
	defer pk.close()
	t, err := wire.PacketType(pk.body)
	switch {
	case err == nil && t == wire.Failed:
		return plan.Tried{}, pk.failure()
	case err == nil && t == wire.Tried && len(pk.fds) == 0:
		tried, err := supervise.TakeTried(pk.body, &s.setup)
		if err != nil {
			err = s.stubError("the stub's word isn't taken", err)
		}
		return tried, err
	}
	return plan.Tried{}, s.stubError("the stub said what it shouldn't", err)
}

// awaitCommand waits for the command to be executed: the stub's end of the
// socket closes with the exec, or, with a terminal, a pidfd of the command
// comes.
func (s *launcher) awaitCommand(ctx context.Context) error {
	stop := s.Process.control.until(ctx)
	defer stop()
	ready := false
	for {
		pk, err := s.Process.control.receive()
		if errors.Is(err, errClosed) && ready && !s.relay.hasInput() {
			return nil // it ran, if only for a moment
		}
		if err != nil {
			return s.brokeOff(ctx, err)
		}
		t, err := wire.PacketType(pk.body)
		switch {
		case err == nil && t == wire.Failed:
			err = pk.failure()
		case err == nil && t == wire.Ready && !ready && len(pk.fds) == 0:
			ready = true
			continue
		case err == nil && t == wire.Started && ready && s.relay.hasInput() && len(pk.fds) == 1:
			return s.takeCommand(pk.take())
		default:
			err = s.stubError("the stub said what it shouldn't", err)
		}
		pk.close()
		return err
	}
}

// takeCommand takes the pidfd of the stub's child, and proves that it is that.
// A command that has ended by now can't be looked at, nor be signalled.
func (s *launcher) takeCommand(fd int) error {
	pid, err := pidOf(fd)
	if err == nil {
		var p proc
		if p, err = readProc(pid); err == nil && p.ppid != s.family.stub.pid {
			err = fmt.Errorf("process %d is no child of the stub", pid)
		}
	}
	if err != nil && !errors.Is(unix.PidfdSendSignal(fd, 0, nil, 0), unix.ESRCH) {
		closeFD(&fd)
		return s.stubError("the command isn't there", err)
	}
	s.commandFD, s.commandPID = fd, pid
	return nil
}
