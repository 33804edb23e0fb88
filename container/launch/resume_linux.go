package launch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"pinfold/container"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// resumeTime bounds the wait for the stub of a container whose supervisor has
// gone: it looks for another once a second at the latest.
const resumeTime = 30 * time.Second

// Resume takes over a container that runs on though its supervisor has gone.
// The stub offers the listeners that it has kept, so what waited in their
// queues is served. The command's standard streams are what they were: those
// that went through the first supervisor have ended with it.
//
// A boundary that was lost meanwhile ends the run as it would have then: the
// Process ends with [BoundaryLost].
//
// One that has ended by itself meanwhile ends the Process as it did.
//
// o needs no Launch, Dirs or Streams: they are the record's.
func Resume(ctx context.Context, o Options, s *plan.Stored) (*Process, error) {
	if s.Container == nil || s.Root == nil || s.Exit != nil || o.Record == nil {
		return nil, errors.New("cannot take over the launch: its record is of none that runs")
	}
	o.Dirs = DirsAt(s.Container.Dirs)
	serving, err := ReadServing(o.Dirs)
	if err != nil {
		return nil, err
	}
	o.Launch = &container.Launch{
		Plan: s.Plan, Listen: serving.Listen, Proxy: serving.Proxy, HostPorts: serving.HostPorts,
		Relays: serving.Relays, Limits: serving.Limits, Watches: serving.Watches, Reach: serving.Reach,
	}
	p := newProcess(o)
	p.ref = container.Ref{Provider: s.Container.Provider, Daemon: s.Container.Daemon, Endpoint: s.Container.Endpoint, ID: s.Container.ID}
	err = p.resume(ctx, s)
	lost := lossIn(err)
	switch {
	case err == nil || lost != nil:
	case p.cameLate(ctx, s):
		close(p.heard)
		go p.conclude()
		return p, nil
	default:
		return nil, errors.Join(err, p.letBe())
	}
	// A timeout that has passed meanwhile ends the run at once.
	expire := context.CancelFunc(func() {})
	if d := serving.Limits.Timeout; d > 0 {
		ctx, expire = context.WithDeadline(ctx, s.Root.Started.Add(d))
	}
	go func() {
		<-p.done
		expire()
	}()
	if o.Launch.Limits.IdleTimeout > 0 {
		go p.watchIdle(ctx)
	}
	go p.hear()
	if o.Forward {
		p.forwarder = supervise.Forward(nil)
		p.forwarder.Release(p.forward)
	}
	if lost != nil {
		p.lose(lost)
	}
	go p.supervise(ctx)
	return p, nil
}

// resume takes the steps in order.
func (p *Process) resume(ctx context.Context, s *plan.Stored) (err error) {
	if err := patiently(func() error { return p.takeLocks(s) }); err != nil {
		return err
	}
	if err := p.recall(s); err != nil {
		return err
	}
	covered, err := readLeased(p.o.Dirs)
	if err != nil {
		return err
	}
	if p.leases, err = lease.Again(lease.Request{State: p.o.State, Covered: covered, Record: p.o.Record}); err != nil {
		return err
	}
	if p.streams, err = newStreams(&Streams{}, false); err != nil {
		return err
	}
	p.streams.began()
	if p.carriers, err = bindRelays(p.o.Launch.Relays); err != nil {
		return err
	}
	if err := p.meetAgain(ctx, s); err != nil {
		return err
	}
	if p.cgroups, err = cgroupsOf(p.stub.pid); err != nil {
		return err
	}
	p.room.Hold(p.stub.pid)
	points, err := readPoints(p.o.Dirs)
	if err != nil {
		return err
	}
	if p.o.Launch.Proxy != "" {
		if p.egress, err = p.o.Egress(); err != nil {
			return fmt.Errorf("cannot make the proxy: %w", err)
		}
	}
	if err := p.watchBoundary(points); err != nil {
		return p.foundLost(err)
	}
	if err := p.noteResumed(); err != nil {
		return err
	}
	p.serveAll(context.WithoutCancel(ctx))
	return nil
}

// lettingGo is how long the locks of a supervisor that was killed may outlast
// that of its record: the kernel takes them one after the other.
const (
	lettingGo      = time.Second
	lettingGoPause = 10 * time.Millisecond
)

func patiently(take func() error) error {
	for end := time.Now().Add(lettingGo); ; <-time.After(lettingGoPause) { // nothing tells of a lock that is free
		if err := take(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// takeLocks takes those that aren't taken yet.
func (p *Process) takeLocks(s *plan.Stored) (err error) {
	if p.o.Dirs.lock == nil {
		if p.o.Dirs.lock, err = lockedDir(p.o.Dirs.Root); err != nil {
			return fmt.Errorf("cannot take over the launch: %w", err)
		}
	}
	if s.Plan.Owner.Execution != "" && p.seat == nil {
		p.seat, err = lockSeat(p.o.State, s.Plan.Owner.Execution)
	}
	return err
}

// foundLost is what a watch that didn't begin comes to. A container whose
// boundary was lost while nobody watched isn't left alone: this process
// supervises its end, even if that can't be noted.
func (p *Process) foundLost(err error) error {
	lost := lossIn(err)
	if lost == nil {
		return err
	}
	if err := p.noteResumed(); err != nil {
		p.o.notice(fmt.Sprintf("cannot note who ends the container: %v", err))
	}
	return lost
}

// recall learns what went on before.
func (p *Process) recall(s *plan.Stored) error {
	nonce, err := hex.DecodeString(s.Container.Nonce)
	if err != nil || len(nonce) != len(p.nonce) {
		return errors.New("cannot take over the launch: the record has no nonce")
	}
	copy(p.nonce[:], nonce)
	n, err := ReadNotes(p.o.Dirs)
	if err != nil {
		return err
	}
	p.termed.Store(n.Termed)
	for _, step := range s.Steps {
		if step.Kind == plan.StepStop && step.Action == plan.StepSent {
			p.reason, p.stopped = Interrupted, step.Detail
		}
	}
	return nil
}

// meetAgain waits for the stub, and takes what it has kept.
func (p *Process) meetAgain(ctx context.Context, s *plan.Stored) error {
	m, err := newMeeting(p.o.Dirs.Handover, p.nonce)
	if err != nil {
		return err
	}
	defer m.close()
	m.first = s.Root.Init.PID
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTime, errors.New("cannot take over the launch: its stub doesn't call"))
	defer cancel()
	p.talk, p.stub, err = m.answer(ctx, true, func() (container.State, error) { return p.o.Provider.Inspect(ctx, p.ref) })
	if err != nil {
		return err
	}
	if now, err := processOf(p.stub.pid); err != nil || now != s.Root.Init {
		return errors.Join(stubError("the container's first process isn't the recorded one", nil), err)
	}
	if err := p.talk.send(wire.EncodeSignal(wire.Again)); err != nil {
		return err
	}
	p.talk.deadline(time.Now().Add(resumeTime))
	defer p.talk.deadline(time.Time{})
	offer, err := p.next(wire.Offer)
	if err != nil {
		return err
	}
	defer offer.close()
	if err := p.takeListeners(offer); err != nil {
		return err
	}
	child, err := p.next(wire.Child)
	if err != nil {
		return err
	}
	child.close()
	return nil
}

// next takes the packet that is due.
func (p *Process) next(want wire.Type) (*packet, error) {
	for {
		pk, err := p.talk.receive()
		if err != nil {
			return nil, stubError("the stub broke off", err)
		}
		switch pk.kind {
		case want:
			return pk, nil
		case wire.Termed:
			p.termed.Store(true)
		default:
			pk.close()
			return nil, stubError(fmt.Sprintf("the stub said %d where %d was due", pk.kind, want), nil)
		}
		pk.close()
	}
}

// noteResumed writes who supervises from here on.
func (p *Process) noteResumed() error {
	me, err := processOf(os.Getpid())
	if err != nil {
		return err
	}
	exe, err := self()
	if err != nil {
		return err
	}
	return p.o.Record.Add(plan.Resumed(me, exe))
}

// letBe gives back what an attempt to take over has taken. The container runs
// on, as before.
func (p *Process) letBe() error {
	var errs []error
	if p.streams != nil {
		p.streams.close()
	}
	errs = append(errs, p.boundary.finish(), p.endServing(), p.leases.Release())
	p.closeAll()
	if p.o.Dirs.lock != nil {
		errs = append(errs, p.o.Dirs.lock.Close())
	}
	return errors.Join(append(errs, p.err)...)
}
