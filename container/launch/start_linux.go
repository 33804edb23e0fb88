package launch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// startTimeout bounds the time from the plan to the command's start. Engines
// take half a second, on a machine that starts twenty at once some more.
const startTimeout = 3 * time.Minute

// launcher is one launch under way. Whatever it has made is the Process's in
// the end, or undone.
type launcher struct {
	*Process
	setup   wire.Setup
	meeting *meeting
	digest  string
	egress  chan egressResult
	tried   bool
}

type egressResult struct {
	egress Egress
	err    error
}

// Start runs a launch and returns once the command runs. The end of ctx ends
// the run: a deadline as a timeout, else as interrupted.
//
// The error is a [*policy.Refusal] (nothing ran), or a [*NotRunError].
func Start(ctx context.Context, o Options) (*Process, error) {
	expire := context.CancelFunc(func() {})
	if d := o.Launch.Limits.Timeout; d > 0 {
		ctx, expire = context.WithTimeout(ctx, d)
	}
	p, err := start(ctx, o)
	if err != nil {
		expire()
		return nil, err
	}
	go func() {
		<-p.done
		expire()
	}()
	return p, nil
}

func start(ctx context.Context, o Options) (*Process, error) {
	launching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	launching, stop := context.WithTimeoutCause(launching, startTimeout, errors.New("it took too long"))
	defer stop()
	s := &launcher{Process: newProcess(o)}
	if o.Forward {
		s.forwarder = supervise.Forward(func(sig unix.Signal) { cancel(interrupted(sig, nil)) })
	}
	if err := s.run(launching, ctx); err != nil {
		err = asLaunchError(launching, ctx, err)
		if loss := s.lossOf(); loss != nil {
			err = lostEarly(loss)
		}
		return nil, errors.Join(err, s.undo(err))
	}
	p := s.Process
	if o.Launch.Limits.IdleTimeout > 0 {
		go p.watchIdle(ctx)
	}
	go p.hear()
	p.forwarder.Release(p.forward)
	go p.supervise(ctx)
	return p, nil
}

// run takes the steps in order. ctx ends the launch, serving the run.
func (s *launcher) run(ctx, serving context.Context) error {
	for _, step := range []func(context.Context) error{
		s.prepare, s.pin, s.makePoints, s.create, s.engineStart, s.meet, s.order, s.takeOffer,
	} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.letGo(ctx, serving)
}

// prepare makes all that the container has mounted, and what the stub will be
// told.
func (s *launcher) prepare(context.Context) (err error) {
	l := s.o.Launch
	s.setup = wire.Setup{
		Version: wire.Version, Argv: l.Argv, Env: l.Env, Dir: l.Dir, Umask: s.o.Umask, Checks: l.Checks,
		Limits: rlimits(l.Limits), ShareSignals: true, Calls: supervise.SampleCalls(runtime.GOARCH, seccomp.Unix),
	}
	if s.setup.Inner, err = seccomp.Program(runtime.GOARCH, seccomp.Inner); err != nil {
		return err
	}
	if s.setup.IgnoreSignals, err = ignoredSignals(); err != nil {
		return err
	}
	checks, err := l.Covers.Make(s.o.Dirs.Scratch)
	if err != nil {
		return err
	}
	s.setup.Checks = append(append([]wire.Check{}, l.Checks...), checks...)
	s.setup.HostReadOnly = hostReadOnly(s.setup.Checks)
	if s.o.Terminal != nil {
		s.setup.TTY = s.o.Terminal.Bits()
		s.setup.Rows, s.setup.Cols = s.o.Terminal.Size()
	}
	if s.setup.TTY != 0 {
		s.setup.Env = withTerm(s.setup.Env)
	}
	if s.streams, err = newStreams(s.o.without(s.setup.TTY), l.Limits.IdleTimeout > 0); err != nil {
		return err
	}
	if s.notes, err = newNotes(s.o.Dirs); err != nil {
		return err
	}
	if err := s.o.Dirs.keep(s.o.Keep); err != nil {
		return err
	}
	if err := s.serving().write(s.o.Dirs); err != nil {
		return err
	}
	if s.nonce, err = newNonce(s.o.Dirs.Handover); err != nil {
		return err
	}
	if s.meeting, err = newMeeting(s.o.Dirs.Handover, s.nonce); err != nil {
		return err
	}
	if s.carriers, err = bindRelays(l.Relays); err != nil {
		return err
	}
	if l.Proxy != "" {
		s.egress = make(chan egressResult, 1)
		go func() {
			e, err := s.o.Egress()
			s.egress <- egressResult{e, err}
		}()
	}
	return nil
}

// without are the streams less those that the terminal inside stands for.
func (o *Options) without(tty byte) *Streams {
	s := o.Streams
	for i, f := range []**os.File{&s.Stdin, &s.Stdout, &s.Stderr} {
		if tty&(1<<i) != 0 {
			*f = nil
		}
	}
	return &s
}

// serving is what another supervisor would have to serve.
func (s *launcher) serving() Serving {
	l := s.o.Launch
	return Serving{
		Network: s.o.Network, Listen: l.Listen, Proxy: l.Proxy, HostPorts: l.HostPorts, Relays: l.Relays,
		Limits: l.Limits, Watches: l.Watches, Reach: l.Reach, Run: s.o.Run,
	}
}

// newNotes is the file that the stub writes to whether anybody listens or not.
func newNotes(d Dirs) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.Root, NotesName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the stub's notes: %w", err)
	}
	return f, nil
}

// pin writes the plan, and takes the execution's place.
func (s *launcher) pin(ctx context.Context) (err error) {
	if s.seat, err = take(ctx, s.o.Provider, s.o.State, s.o.Owner); err != nil {
		return err
	}
	if s.o.Record != nil {
		s.digest, err = s.o.Record.Pin(s.o.Launch.Plan)
	} else {
		s.digest, err = s.o.Launch.Plan.Digest()
	}
	return err
}

// create makes the container, and pins which it is.
func (s *launcher) create(ctx context.Context) error {
	spec := s.o.Launch.Spec
	spec.Name = "pinfold-" + s.o.Run
	spec.Labels = maps.Clone(spec.Labels)
	maps.Copy(spec.Labels, Labels(s.o.State, s.o.Owner))
	spec.Labels[container.LabelDigest] = s.digest
	if s.o.Record != nil {
		spec.Labels[container.LabelRecord] = s.o.Record.Path()
	}
	ref, err := s.o.Provider.Create(ctx, spec)
	if err != nil {
		return engineError("create", err)
	}
	s.ref = ref
	if s.o.Record == nil {
		return nil
	}
	return s.o.Record.WriteContainer(plan.Container{
		Provider: ref.Provider, Daemon: ref.Daemon, Endpoint: ref.Endpoint, ID: ref.ID, Name: spec.Name,
		Image: spec.Image, Digest: s.digest, Labels: spec.Labels, Pinned: time.Now(),
		Dirs: s.o.Dirs.Root, Nonce: hex.EncodeToString(s.nonce[:]),
	})
}

func (s *launcher) engineStart(ctx context.Context) error {
	if err := s.o.Provider.Start(ctx, s.ref); err != nil {
		return engineError("start", err)
	}
	return nil
}

func engineError(what string, err error) error {
	var r *policy.Refusal
	if errors.As(err, &r) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "engine_failed", Subject: "container", Err: err,
		Why: fmt.Sprintf("cannot %s the container: %v", what, err), Fix: doctorFix,
	}
}

// meet waits for the stub.
func (s *launcher) meet(ctx context.Context) (err error) {
	s.talk, s.stub, err = s.meeting.answer(ctx, false, func() (container.State, error) {
		return s.o.Provider.Inspect(ctx, s.ref)
	})
	// Before anything of the command's runs: it sees neither socket nor nonce.
	if eerr := s.meeting.end(); err == nil && eerr != nil {
		return eerr
	}
	if early := (*endedEarly)(nil); errors.As(err, &early) {
		return stubError(early.Error(), nil)
	}
	return err
}

// order tells the stub what to do.
func (s *launcher) order(context.Context) error {
	setup, err := supervise.Memfd("setup", wire.EncodeSetup(&s.setup))
	if err != nil {
		return err
	}
	defer unix.Close(setup)
	notes, err := rawFD(s.notes)
	if err != nil {
		return err
	}
	fds := []int{setup, notes}
	for _, f := range s.streams.files {
		fd, err := rawFD(f)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	errand := wire.Errand{Listen: s.o.Launch.Listen}
	if f := s.leases.File(); f != nil {
		errand.Tenant = true
		fds = append(fds, int(f.Fd()))
	}
	err = s.talk.send(wire.EncodeOrders(&errand), fds...)
	return errors.Join(err, s.notes.Close())
}

// rawFD is a file's descriptor. One of the caller's own standard streams keeps
// its mode; any other becomes a blocking one, as the command expects.
func rawFD(f *os.File) (int, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("cannot use %q: %w", f.Name(), err)
	}
	fd := -1
	if err := c.Control(func(n uintptr) { fd = int(n) }); err != nil {
		return -1, fmt.Errorf("cannot use %q: %w", f.Name(), err)
	}
	if fd > 2 {
		fd = int(f.Fd())
	}
	return fd, nil
}

// hearUntil takes packets until one of a kind comes.
func (s *launcher) hearUntil(ctx context.Context, want wire.Type) (*packet, error) {
	stop := context.AfterFunc(ctx, func() { s.talk.deadline(time.Unix(1, 0)) })
	defer stop()
	for {
		pk, err := s.talk.receive()
		if err != nil {
			return nil, s.brokeOff(ctx, err)
		}
		if err := pk.failure(); err != nil {
			pk.close()
			return nil, err
		}
		switch {
		case pk.kind == want:
			return pk, nil
		case pk.kind == wire.Termed:
			s.termed.Store(true)
		case pk.kind == wire.Tried && !s.tried:
			if err := s.takeTried(pk.body); err != nil {
				return nil, err
			}
		case pk.kind == wire.Ended:
			err := s.brokeOff(ctx, errStubClosed)
			return nil, err
		default:
			pk.close()
			return nil, stubError(fmt.Sprintf("the stub said %d where %d was due", pk.kind, want), nil)
		}
		pk.close()
	}
}

// takeTried puts on record that what the plan claims was tried, and held.
func (s *launcher) takeTried(body []byte) error {
	tried, err := supervise.TakeTried(body, &s.setup)
	if err != nil {
		return stubError("the stub's word isn't taken", err)
	}
	s.tried = true
	return supervise.NoteTried(s.o.Record, tried)
}

// brokeOff is a stub that ended in between. An engine that stopped it is the
// cause that counts.
func (s *launcher) brokeOff(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.termed.Load() {
		return interrupted(unix.SIGTERM, errors.New("the container was stopped"))
	}
	return stubError("the stub broke off", err)
}

// takeOffer takes the listeners.
func (s *launcher) takeOffer(ctx context.Context) error {
	pk, err := s.hearUntil(ctx, wire.Offer)
	if err != nil {
		return err
	}
	defer pk.close()
	return s.takeListeners(pk)
}

func (p *Process) takeListeners(pk *packet) error {
	want := p.o.Launch.Listen
	if len(pk.fds) != len(want) {
		return stubError(fmt.Sprintf("the stub offers %d listeners, and %d were asked for", len(pk.fds), len(want)), nil)
	}
	var list []net.Listener
	for _, address := range want {
		fd := pk.fds[0]
		pk.fds = pk.fds[1:]
		l, err := takeListener(fd, address)
		if err != nil {
			for _, l := range list {
				l.Close()
			}
			return stubError("a listener isn't what was asked for", err)
		}
		list = append(list, l)
	}
	if p.o.Launch.Proxy != "" {
		p.proxy, list = list[0], list[1:]
	}
	for i, l := range list {
		p.carriers = append(p.carriers, supervise.HostPort(l, p.o.Launch.HostPorts[i]))
	}
	return nil
}
