package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"pinfold/event"
	"pinfold/policy"
)

// eventsGrace is how long the end of a run waits for whoever reads events, or
// the result.
const eventsGrace = 2 * time.Second

// openEvents starts writing events where --events says.
func (r *oneRun) openEvents(may reach) error {
	if r.options.events == "" {
		return nil
	}
	f, path, err := openOutput(r.options.events, may)
	if err != nil {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "events_unwritable", Subject: r.options.events, Err: err,
			Why: fmt.Sprintf("cannot write events to %q: %v", r.options.events, cause(err)),
			Fix: "name a file outside everything that the command may write, or fd:N with N open for writing",
		}
	}
	r.eventsPath = path
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
func openOutput(name string, r reach) (f *os.File, path string, err error) {
	if number, ok := descriptorNumber(name); ok {
		if f, err = inheritedFile(number); err != nil {
			return nil, "", err
		}
		path, err = r.check(f)
		return f, path, err
	}
	if path, err = r.place(name); err != nil {
		return nil, "", err
	}
	// O_NONBLOCK: a FIFO without a reader is an error, not a wait.
	f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, "", err
	}
	if _, err = r.check(f); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, path, nil
}
