package launch

import (
	"context"
	"fmt"
	"os"
	"time"

	"pinfold/plan"
	"pinfold/stub/wire"
)

// letGo lets the stub go on, once everything that the command needs is there
// and everything that must be known about it is written down.
func (s *launcher) letGo(ctx, serving context.Context) error {
	command, err := s.greet(ctx)
	if err != nil {
		return err
	}
	if err := checkLimits(s.stub.pid, s.o.Launch.Info, s.o.Launch.Spec.Limits); err != nil {
		return err
	}
	if s.cgroups, err = cgroupsOf(s.stub.pid); err != nil {
		return err
	}
	s.room.Hold(s.stub.pid)
	if err := s.watchBoundary(nil); err != nil {
		return err
	}
	if err := s.writeRoot(command); err != nil {
		return err
	}
	if err := s.serve(ctx, context.WithoutCancel(serving)); err != nil {
		return err
	}
	s.streams.began()
	if s.setup.TTY != 0 {
		s.o.Terminal.Start()
		s.terminal = true
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.forwarder.Hold()
	if err := s.talk.send(wire.EncodeSignal(wire.Go)); err != nil {
		return s.brokeOff(ctx, err)
	}
	runs := wire.Running
	if s.setup.TTY&wire.TTYStdin != 0 {
		runs = wire.Started
	}
	for _, kind := range []wire.Type{wire.Ready, runs} {
		pk, err := s.hearUntil(ctx, kind)
		if err != nil {
			return err
		}
		pk.close()
	}
	if runs == wire.Started {
		s.o.Terminal.Open()
	}
	if !s.tried {
		return stubError("the stub has tried nothing", nil)
	}
	return nil
}

// greet takes the process that will be the command, and its greeting.
func (s *launcher) greet(ctx context.Context) (plan.Process, error) {
	pk, err := s.hearUntil(ctx, wire.Child)
	if err != nil {
		return plan.Process{}, err
	}
	defer pk.close()
	if len(pk.fds) != 1 {
		return plan.Process{}, stubError("the stub's process comes without a descriptor", nil)
	}
	pid, err := pidOf(pk.fds[0])
	if err != nil {
		return plan.Process{}, stubError("the command's process isn't there", err)
	}
	command, err := processOf(pid)
	if err != nil {
		return plan.Process{}, stubError("the command's process isn't there", err)
	}
	hello, err := s.hearUntil(ctx, wire.Hello)
	if err != nil {
		return plan.Process{}, err
	}
	defer hello.close()
	g, err := wire.DecodeHello(hello.body)
	want := wire.Greeting{Version: wire.Version, TTY: s.setup.TTY != 0}
	if err != nil || g != want || len(hello.fds) != g.Descriptors() {
		return plan.Process{}, stubError("the stub's greeting isn't what was asked for", err)
	}
	if g.TTY {
		master := hello.fds[0]
		hello.fds = nil
		if err := s.o.Terminal.Take(master); err != nil {
			return plan.Process{}, stubError("the terminal isn't what was asked for", err)
		}
	}
	return command, nil
}

// writeRoot writes what runs.
func (s *launcher) writeRoot(command plan.Process) error {
	if s.o.Record == nil {
		return nil
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	exe, err := self()
	if err != nil {
		return err
	}
	root := plan.Root{Digest: s.digest, Started: time.Now(), BootID: boot, Owner: os.Geteuid(), Exe: exe, Command: command}
	if root.Supervisor, err = processOf(os.Getpid()); err != nil {
		return err
	}
	if root.Init, err = processOf(s.stub.pid); err != nil {
		return err
	}
	if err := noteFacts(&root, s.o.Launch.Plan); err != nil {
		return err
	}
	return s.o.Record.WriteRoot(root)
}

// serve starts serving: the sockets listen already, so from here on each
// connection is answered.
func (s *launcher) serve(ctx, serving context.Context) error {
	if s.egress != nil {
		select {
		case r := <-s.egress:
			s.egress = nil
			if r.err != nil {
				return fmt.Errorf("cannot make the proxy: %w", r.err)
			}
			s.Process.egress = r.egress
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.serveAll(serving)
	return nil
}
