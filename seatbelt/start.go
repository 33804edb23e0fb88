package seatbelt

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/supervise"
)

// startTimeout bounds the time from sandbox-exec's start to the command's.
const startTimeout = time.Minute

// launcher is one launch under way. Whatever it has made is the Process's in
// the end, or undone.
type launcher struct {
	*Process
	tool    string // sandbox-exec
	digest  string
	profile string // its path
	token   string
	canary  net.Listener
	// The supervisor's ends of the two pipes, and the program's.
	say, hear *os.File
	theirs    []*os.File
	started   bool
}

// Start runs a launch and returns once the command runs, that is, once the
// program inside has tried the boundary and become the command. The end of
// ctx ends the run: a deadline as a timeout, else as interrupted. The error is
// a [*policy.Refusal] (nothing ran), or a [*NotRunError].
func Start(ctx context.Context, l *Launch, o StartOptions) (*Process, error) {
	return start(ctx, SandboxExec, l, o)
}

func start(ctx context.Context, tool string, l *Launch, o StartOptions) (*Process, error) {
	run, end := withTimeout(ctx, l.limits.Timeout)
	launching, cancel := context.WithCancelCause(run)
	defer cancel(nil)
	launching, stop := context.WithTimeoutCause(launching, startTimeout, errors.New("it took too long"))
	defer stop()
	s := &launcher{Process: newProcess(l, o, end), tool: tool}
	if o.Forward {
		s.forwarder = supervise.Forward(func(sig unix.Signal) { cancel(interrupted(sig, nil)) }, unix.SIGTSTP)
	}
	err := s.run(launching, run)
	s.closeEnds()
	if err != nil {
		err = asLaunchError(launching, run, err)
		if uerr := s.undo(err); uerr != nil {
			err = errors.Join(err, uerr)
		}
		end()
		return nil, err
	}
	s.forwarder.Release(s.Process.forward)
	go s.Process.supervise(run)
	return s.Process, nil
}

func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return context.WithCancel(ctx)
}

// run takes the steps in order. ctx ends the launch, serving the run.
func (s *launcher) run(ctx, serving context.Context) error {
	if s.o.Record == nil {
		return errors.New("internal error: a launch needs a record, which the profile lies in")
	}
	for _, step := range []func() error{
		func() error { return s.serve(context.WithoutCancel(serving)) },
		s.pin, s.openCanary, s.openPipes, s.spawn,
		func() error { return s.brief(ctx) },
		s.writeRoot,
		func() error { return s.await(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	s.watch()
	return nil
}

// serve opens the run's port on the loopback, where whoever knows the
// password is served.
func (s *launcher) serve(ctx context.Context) (err error) {
	s.token = rand.Text()
	if !s.launch.Proxy {
		return nil
	}
	if s.o.Egress == nil {
		return errors.New("internal error: the launch has a listener, and nobody serves it")
	}
	if s.egress, err = s.o.Egress(egress.Password{User: proxyUser, Secret: s.token}); err != nil {
		return fmt.Errorf("cannot make the proxy: %w", err)
	}
	if s.listener, s.held, err = listenLoopback(); err != nil {
		return fmt.Errorf("cannot listen for the proxy: %w", err)
	}
	s.serving.Go(func() { s.serveOne(ctx, s.listener) })
	return nil
}

// pin writes the plan and the profile. The record is in the protected set, so
// nothing inside can read it.
func (s *launcher) pin() (err error) {
	if s.digest, err = s.o.Record.Pin(s.launch.Plan); err != nil {
		return err
	}
	s.profile, err = s.o.Record.WriteProfile([]byte(s.launch.Text.At(portOf(s.listener), s.tag)))
	return err
}

// openCanary listens where the boundary must not let the command connect.
func (s *launcher) openCanary() (err error) {
	if s.canary, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("cannot listen for trying the sandbox: %w", err)
	}
	return nil
}

func (s *launcher) openPipes() error {
	setupOut, setupIn, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	s.say, s.theirs = setupIn, append(s.theirs, setupOut)
	outcomeOut, outcomeIn, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	s.hear, s.theirs = outcomeOut, append(s.theirs, outcomeIn)
	return nil
}

// spawn starts sandbox-exec, in a session of its own and with no environment:
// a loader's variable that names a library of the workspace must not work in
// a program that isn't in the sandbox yet.
func (s *launcher) spawn() error {
	if err := closeOnExec(); err != nil {
		return err
	}
	files, tty, err := s.openStreams()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.tool, s.launch.arguments(s.profile, tty)...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.ExtraFiles = s.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: s.relay.hasInput()}
	if err := cmd.Start(); err != nil {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "sandbox_exec_failed", Subject: s.tool, Err: err,
			Why: fmt.Sprintf("cannot execute %q: %v", s.tool, err), Fix: doctorFix,
		}
	}
	s.cmd, s.started = cmd, true
	// The child isn't reaped yet, so it can be looked up even if it has ended.
	if s.root, err = identify(cmd.Process.Pid); err != nil {
		s.root = plan.Process{PID: cmd.Process.Pid, StartTicks: math.MaxUint64}
	}
	go s.reap()
	if err != nil {
		return err
	}
	s.relay.start()
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	return nil
}

const doctorFix = "see what pinfold doctor says about this machine"

// openStreams are the command's; nil is /dev/null. Terminals among them are
// replaced by one that is made here.
func (s *launcher) openStreams() (files [3]*os.File, tty string, err error) {
	tty = "/dev/null"
	given := s.o.files()
	if s.relay, err = newRelay(given); err != nil {
		return files, "", err
	}
	if s.relay != nil {
		tty = s.relay.slave.Name()
	}
	for i, f := range given {
		switch {
		case f == nil:
			if files[i], err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return files, "", fmt.Errorf("cannot open a stream: %w", err)
			}
			s.own = append(s.own, files[i])
		case s.relay.replaces(i):
			files[i] = s.relay.slave
		default:
			files[i] = f
		}
	}
	return files, tty, nil
}

// brief sends the setup; the pipe may hold less than an environment does.
func (s *launcher) brief(ctx context.Context) error {
	setup := s.launch.setup
	setup.Env = s.launch.environment(proxyAt{host: s.address(), token: s.token})
	setup.Claims = Claims{
		Unreadable: s.profile, Unwritable: filepath.Join(s.o.Record.Path(), "made"), Unreached: s.canary.Addr().String(),
		Unseen: os.Getpid(),
	}
	b, err := setup.encode()
	if err != nil {
		return fmt.Errorf("cannot write the setup: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { s.say.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err = s.say.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return nil // it has ended, and await learns why
	}
	if err != nil {
		return fmt.Errorf("cannot send the setup: %w", err)
	}
	return s.say.Close()
}

func (s *launcher) address() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// await reads what the program inside says: ready, and then nothing more,
// since its end of the pipe closes as it becomes the command.
func (s *launcher) await(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.hear.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	d := json.NewDecoder(io.LimitReader(s.hear, 64<<10))
	ready := false
	for {
		var o outcome
		err := d.Decode(&o)
		switch {
		case errors.Is(err, io.EOF) && ready:
			s.forwarder.Hold()
			return nil
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return s.notInside(err)
		case o.Ready && !ready:
			ready = true
		default:
			return s.failure(o)
		}
	}
}

// failure is why the program inside didn't become the command.
func (s *launcher) failure(o outcome) error {
	switch {
	case o.Code == CodeNotFound || o.Code == CodeNotExecutable:
		return &NotRunError{Exit: Exit{Code: o.Code, Reason: Exited}, Why: o.Why}
	case o.Broken:
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "boundary_open", Subject: "sandbox-exec", Why: "cannot run the command: " + o.Why,
			Fix: "this macOS reads the profile in another way: report it, with the version of macOS",
		}
	}
	return fmt.Errorf("inside the sandbox: %s", o.Why)
}

// notInside is a sandbox-exec that ended before the program inside spoke. Its
// own words went to standard error.
func (s *launcher) notInside(err error) error {
	select {
	case <-s.gone:
		err = fmt.Errorf("it ended with %v", s.cmd.ProcessState)
	case <-time.After(time.Second): // it closed the pipe and lives on
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "sandbox_exec_failed", Subject: s.tool, Err: err,
		Why: fmt.Sprintf("cannot start the sandbox: %s didn't get as far as running anything: %v", s.tool, err),
		Fix: "pinfold can't be run inside of another sandbox; else " + doctorFix,
	}
}

// closeEnds lets go of what only the launch needs.
func (s *launcher) closeEnds() {
	for _, f := range append(s.theirs, s.say, s.hear) {
		if f != nil {
			f.Close() // some are closed already
		}
	}
	for _, f := range s.own {
		f.Close()
	}
	if s.canary != nil {
		s.canary.Close()
	}
	s.relay.closeSlave()
}

// undo ends what was started for a launch that failed.
func (s *launcher) undo(cause error) error {
	if s.started {
		s.killTree()
		<-s.gone
	}
	err := s.cleanUp()
	if s.digest != "" {
		err = errors.Join(err, writeExit(s.o.Record, asExit(cause)))
	}
	return err
}
