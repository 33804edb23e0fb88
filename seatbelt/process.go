package seatbelt

import (
	"context"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/plan"
)

// Streams are the command's standard streams, handed on as they are; a nil
// one is /dev/null. A terminal among them is replaced by one made for the run,
// so that no descriptor of the operator's terminal gets inside: TIOCSTI types
// into the terminal that one has.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
}

func (s Streams) files() [3]*os.File { return [3]*os.File{s.Stdin, s.Stdout, s.Stderr} }

// Egress carries what the command sends out.
type Egress interface {
	// Serve accepts connections until Close, or until ctx ends.
	Serve(ctx context.Context, l net.Listener) error
	Close() error
}

// StartOptions are the caller's choices for one run.
type StartOptions struct {
	Streams
	// Egress makes what serves the run's port, which asks for the password.
	// It is called only for a launch that allows a host.
	Egress func(egress.Password) (Egress, error)
	// Record is where the plan is pinned and the profile written before
	// anything starts.
	Record *plan.Record
	Fresh  []Fresh
	Events event.Sink
	// Violations: what the kernel refuses is read from the system's log, as
	// far as this user may.
	Violations bool
	Run        string
	// Grace is how long a stop waits between SIGTERM and SIGKILL. Zero means
	// ten seconds.
	Grace time.Duration
	// Forward hands the signals that this process gets on to the command.
	Forward bool
	Notice  func(string)
}

func (o *StartOptions) grace() time.Duration {
	if o.Grace <= 0 {
		return 10 * time.Second
	}
	return o.Grace
}

// Reason is how a run ended.
type Reason string

// The reasons.
const (
	Exited      Reason = "exited"
	Signaled    Reason = "signaled"
	Timeout     Reason = "timeout"
	Interrupted Reason = "interrupted"
	Refused     Reason = "refused"
	Unavailable Reason = "unavailable"
)

// The exit codes that are not the command's own.
const (
	CodeTimeout       = 124
	CodeRefused       = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeSignal        = 128 // plus the signal's number
)

// Exit is how the command ended.
type Exit struct {
	Code   int         `json:"code"`
	Signal unix.Signal `json:"signal,omitempty"`
	Reason Reason      `json:"reason"`
	// Stop is what a stop had to deliver: "", "term" or "kill".
	Stop string `json:"stop,omitempty"`
}

// NotRunError is why a command didn't run though nothing was refused.
type NotRunError struct {
	Exit Exit
	Why  string
	Err  error
}

// Error says why.
func (e *NotRunError) Error() string { return e.Why }

// Unwrap returns the cause.
func (e *NotRunError) Unwrap() error { return e.Err }

// ExitCode is what the program should exit with.
func (e *NotRunError) ExitCode() int { return e.Exit.Code }
