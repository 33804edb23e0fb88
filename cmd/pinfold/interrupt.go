package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/lease"
)

// interruption is a signal that came before the command ran.
type interruption struct {
	signal syscall.Signal
}

func (i *interruption) Error() string {
	return fmt.Sprintf("cannot run the command: %v came first", i.signal)
}

// ExitCode is that of a process that the signal ended.
func (i *interruption) ExitCode() int { return bwrap.CodeSignal + int(i.signal) }

// guardUnlessInterrupted is guard, which a signal ends: a walk may be long,
// and what was made for the launch is to be taken away. Afterwards signals
// have their own meaning again, until they are the command's.
func (l *prepared) guardUnlessInterrupted(ctx context.Context) (*guarded, error) {
	ctx, release := interruptible(ctx)
	g, err := l.guardInPlace(ctx)
	release()
	var i *interruption
	if !errors.As(context.Cause(ctx), &i) {
		return g, err
	}
	if g != nil {
		return nil, errors.Join(i, g.look.End(), g.grant.Close())
	}
	return nil, i
}

// guardInPlace is guard, while no other launch that ends removes what it sees:
// that holds until the end of the look in its answer. What vanishes while the
// guard looks, and isn't a mount point, has it look again.
func (l *prepared) guardInPlace(ctx context.Context) (*guarded, error) {
	for looked := 0; ; looked++ {
		look, err := lease.BeginLook(l.request.State)
		if err != nil {
			return nil, stateRefusal(l.request.State, "cannot use the state directory", err)
		}
		g, err := l.guard(ctx)
		missed := look.Missed() // by the first one ever, at this very moment
		again := missed || looked < maxAgain && errors.Is(err, guard.ErrAgain)
		switch {
		case err != nil && !again:
			return nil, errors.Join(err, look.End())
		case err == nil && !again:
			g.look = look
			return g, nil
		case err == nil:
			err = g.grant.Close()
		default:
			err = nil
		}
		if err = errors.Join(err, look.End()); err != nil {
			return nil, err
		}
	}
}

// interruptible is a context that ends with a signal that asks this process
// to end. A signal that the caller ignores stays ignored.
func interruptible(ctx context.Context) (context.Context, func()) {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	signals = slices.DeleteFunc(signals, signal.Ignored)
	if len(signals) == 0 {
		return ctx, func() {} // Notify without any would take them all
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ch := make(chan os.Signal, 1)
	taken := notifySoon(ch, signals...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s, ok := (<-ch).(syscall.Signal); ok {
			cancel(&interruption{signal: s})
		}
	}()
	return ctx, func() {
		<-taken
		signal.Stop(ch)
		close(ch)
		<-done
		cancel(nil)
	}
}

// notifySoon is [signal.Notify] beside what the caller does meanwhile: for each
// signal the runtime waits for a thread of its own. The result is closed when
// the signals are taken; until then they mean what they meant before.
func notifySoon(ch chan<- os.Signal, signals ...os.Signal) <-chan struct{} {
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		signal.Notify(ch, signals...)
	}()
	return taken
}
