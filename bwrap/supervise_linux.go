package bwrap

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/lease"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// startTimeout bounds the time from bubblewrap's start to the command's. A
// launch takes tens of milliseconds, on a machine that does fifty at once a
// few seconds.
const startTimeout = 2 * time.Minute

// launcher is one launch under way. Whatever it has made is the Process's in
// the end, or undone.
type launcher struct {
	*Process
	setup    wire.Setup
	term     terminals
	digest   string
	stubEnd  int // of the control socket
	null     [2]int
	in       inherited
	data     *filling
	pending  *pendingBoundary // until the Process has it
	outcome  chan egressResult
	signals  sync.WaitGroup // until they are taken: the runtime waits for a thread of its own for each
	compares bool           // the stub has been let go
	unrun    bool           // bubblewrap had read its filter, the last thing before the stub, and then ended
	released bool
}

type egressResult struct {
	egress Egress
	err    error
}

// Start runs a launch and returns once the command runs, that is, once the
// stub has compared everything inside with the grant and become the command.
// The end of ctx ends the run: a deadline as a timeout, else as interrupted.
//
// The error is a [*policy.Refusal] (nothing ran), or a [*NotRunError].
//
// Start marks every descriptor of this process past the standard ones as
// close-on-exec, as Go's own all are.
func Start(ctx context.Context, l *Launch, o StartOptions) (*Process, error) {
	ctx, expire := withTimeout(ctx, l.Limits.Timeout)
	p, err := startRun(ctx, l, o)
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

// withTimeout is the run's own context; zero is no timeout.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

func startRun(ctx context.Context, l *Launch, o StartOptions) (*Process, error) {
	launching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	launching, stop := context.WithTimeoutCause(launching, startTimeout, errors.New("it took too long"))
	defer stop()
	s := newLauncher(l, o)
	if o.Forward {
		inherit()
		s.signals.Go(func() {
			s.forwarder = supervise.Forward(func(sig unix.Signal) { cancel(interrupted(sig, nil)) }, stopSignals()...)
			noteOrder()
		})
	}
	if err := s.run(launching, ctx); err != nil {
		if l := s.boundary.lossOf(); l != nil {
			err = l
		}
		err = asLaunchError(launching, ctx, err)
		uerr := s.undo(err)
		if err = s.blame(err); uerr != nil {
			err = errors.Join(err, uerr)
		}
		return nil, err
	}
	p := s.Process
	p.output.start()
	if o.Forward {
		p.told.stopper = newStopper(p.done)
	}
	p.carried.Start()
	if l.Limits.IdleTimeout > 0 {
		go p.watchIdle(ctx)
	}
	p.forwarder.Release(p.forward)
	go p.supervise(ctx)
	return p, nil
}

func newLauncher(l *Launch, o StartOptions) *launcher {
	p := &Process{
		launch: l, o: o, capture: -1, commandFD: -1, hurried: make(chan struct{}),
		family: &family{initFD: -1, stubFD: -1}, done: make(chan struct{}),
	}
	if p.o.State == "" {
		p.o.State = l.Plan.Paths.State
	}
	s := &launcher{Process: p, setup: l.Setup, stubEnd: -1, null: [2]int{-1, -1}}
	s.setup.Hold = true
	return s
}

// run takes the steps in order. ctx ends the launch, serving the run.
func (s *launcher) run(ctx, serving context.Context) error {
	if s.needsEgress() && s.o.Egress == nil {
		return errors.New("internal error: the launch has listeners, and nobody serves them")
	}
	s.data = fillSoon(s.launch.handed(), s.o.Ahead)
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.makeTree(); err != nil {
		return err
	}
	if err := s.spawn(); err != nil {
		return err
	}
	s.watchSoon()
	s.makeEgress()
	if err := s.greet(ctx); err != nil {
		return err
	}
	if err := s.confine(ctx); err != nil {
		return err
	}
	return s.letGo(ctx, serving)
}

func (s *launcher) needsEgress() bool { return len(s.setup.Listen) > 0 || s.launch.Transparent }

// prepare makes everything that bubblewrap is handed, and pins the plan.
func (s *launcher) prepare() (err error) {
	if s.setup.IgnoreSignals, err = ignoredSignals(); err != nil {
		return err
	}
	s.setup.Checks = withHostDevices(s.setup.Checks)
	s.setup.HostReadOnly = hostReadOnly(s.setup.Checks)
	if s.setup.Limits, err = lowerLimits(s.setup.Limits); err != nil {
		return err
	}
	pinned := make(chan error, 1)
	go func() { pinned <- s.pin() }()
	err = s.prepareStreams()
	err = cmp.Or(err, <-pinned)
	s.signals.Wait() // before anything is made that only this process takes away
	if err != nil {
		return err
	}
	if err = s.listenOutside(); err != nil {
		return err
	}
	// bubblewrap would make the mount points as well, but then nobody could tell
	// later whose they are. Until it has laid the sandbox out it outlives this
	// process, and would make anew what was taken away.
	s.leases, err = lease.Take(lease.Request{
		State: s.o.State, Missing: s.launch.Ghosts, Covered: covered(s.setup.Checks), Record: s.o.Record, Outlives: true,
	})
	return err
}

// pin writes the plan down.
func (s *launcher) pin() (err error) {
	switch {
	case s.o.Record == nil:
	case s.launch.form != nil:
		s.digest, err = s.o.Record.PinForm(s.launch.form)
	default:
		s.digest, err = s.o.Record.Pin(s.launch.Plan)
	}
	return err
}

// covered are the paths that something is mounted at, what is granted there or
// what hides it: what stands there may be a mount point that another launch
// made.
func covered(checks []wire.Check) []string {
	var paths []string
	for _, c := range checks {
		switch c.Kind {
		case wire.CheckEmptyDir, wire.CheckEmptyFile, wire.CheckPassDir, wire.CheckBind:
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// prepareStreams lays out the first descriptors: the standard streams, with
// bubblewrap's standard error apart from the command's, and the stub's own.
func (s *launcher) prepareStreams() (err error) {
	if s.null[0], err = devNull(unix.O_RDONLY); err != nil {
		return err
	}
	if s.null[1], err = devNull(unix.O_WRONLY); err != nil {
		return err
	}
	fds := [3]int{s.null[0], s.null[1], s.null[1]}
	carry := [3]int{-1, -1, -1}
	for i, f := range s.o.files() {
		if f == nil {
			continue
		}
		if fds[i], err = rawFD(f); err != nil {
			return err
		}
		connection, err := supervise.CheckStream(i, fds[i])
		if err != nil {
			return err
		}
		if connection {
			carry[i] = fds[i]
		}
	}
	s.term = findTerminals(fds)
	s.setup.TTY = s.term.bits
	s.setup.Rows, s.setup.Cols = s.term.size()
	s.setup.Stderr = stderrFD
	for i := range fds {
		if s.term.bits&(1<<i) != 0 {
			fds[i] = s.null[min(i, 1)] // the stub puts its own terminal there
		}
	}
	if err := cmp.Or(s.watchOutput(&fds), s.carryStreams(&fds, carry)); err != nil {
		return err
	}
	if s.capture, err = capture(); err != nil {
		return err
	}
	if s.Process.control, s.stubEnd, err = newControl(); err != nil {
		return err
	}
	setup, err := supervise.Memfd("setup", wire.EncodeSetup(&s.setup))
	if err != nil {
		return err
	}
	s.in.fds = []int{fds[0], fds[1], s.capture}
	s.in.own(setup)
	s.in.own(s.stubEnd)
	s.in.add(fds[2])
	return nil
}

// carryStreams puts something of ours in the place of connections that mustn't
// get inside, unless they are watched already.
func (s *launcher) carryStreams(fds *[3]int, carry [3]int) error {
	for i, fd := range carry {
		if fd < 0 || fds[i] != fd {
			continue
		}
		inner, made, err := s.carried.Add(fd)
		if err != nil {
			return err
		}
		if made {
			s.in.owned = append(s.in.owned, inner)
		}
		fds[i] = inner
	}
	return nil
}

// spawn starts bubblewrap.
func (s *launcher) spawn() error {
	args, err := handData(&s.in, s.launch, s.data)
	if err != nil {
		return err
	}
	fd, err := supervise.Memfd("args", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return err
	}
	argsFD := s.in.own(fd)
	if f := s.leases.File(); f != nil {
		s.in.add(int(f.Fd())) // closed by bubblewrap once nothing is to be made any more
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	path := s.launch.Plan.Tool.Path
	s.monitor, err = start(spawn{path: path, argv: bwrapArgv(path, s.launch.Stub, argsFD), fds: s.in.files()})
	s.in.close()
	s.closeNull()
	return err
}

func (s *launcher) closeNull() {
	for i, fd := range s.null {
		if fd >= 0 {
			unix.Close(fd)
		}
		s.null[i] = -1
	}
}

// makeEgress builds the proxy while bubblewrap works.
func (s *launcher) makeEgress() {
	if !s.needsEgress() {
		return
	}
	s.outcome = make(chan egressResult, 1)
	go func() {
		e, err := s.o.Egress()
		s.outcome <- egressResult{egress: e, err: err}
	}()
}
