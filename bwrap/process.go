package bwrap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/plan"
)

// Streams are the command's standard streams, handed on as they are; a nil
// one is /dev/null. A terminal among them is replaced by one made inside, so
// that no descriptor of the operator's terminal gets there.
//
// Go opens /dev/null in place of a standard stream that its caller closed, so
// no other descriptor can turn up as one.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
}

func (s Streams) files() [3]*os.File { return [3]*os.File{s.Stdin, s.Stdout, s.Stderr} }

// Egress carries what the command sends out: the proxy, as far as this
// package needs to know it.
type Egress interface {
	// Serve accepts connections until Close, or until ctx ends.
	Serve(ctx context.Context, l net.Listener) error
	Close() error
}

// Transparent is an Egress that carries connections by name as well, with no
// proxy: what a Launch with Transparent set needs.
type Transparent interface {
	Egress
	// ServeFlows carries the connections that arrive captured.
	ServeFlows(ctx context.Context, l net.Listener) error
	// ServeNames and ServeNamesTCP answer DNS.
	ServeNames(ctx context.Context, c net.PacketConn) error
	ServeNamesTCP(ctx context.Context, l net.Listener) error
	// Route judges a connection before it is made.
	Route(to netip.AddrPort, stream bool, who func() (pid int, program string)) egress.Route
}

// StartOptions are the caller's choices for one run. The zero value runs a
// command without streams that nobody can signal.
type StartOptions struct {
	Streams
	// Egress makes what serves the launch's listeners; it is called once,
	// while bubblewrap works, and only for a launch that has any.
	Egress func() (Egress, error)
	// Record is where the plan is pinned before anything starts, what runs is
	// noted before the command does, and its end in the end. Nil keeps none.
	Record *plan.Record
	// Fresh are the directories that the plan calls by name, for the record.
	Fresh  []Fresh
	Events event.Sink
	// AllFlows reports what was allowed, too.
	AllFlows bool
	Run      string // the run's name in events
	// Grace is how long a stop waits between SIGTERM and SIGKILL. Zero means
	// ten seconds, as engines have it.
	Grace time.Duration
	// Ahead is what the launch was translated with, where it can help.
	Ahead *Ahead
	// Forward hands the signals that this process gets on to the command, and
	// makes it stop and continue with the command. A program that runs one
	// command sets it; a library user keeps its signals.
	Forward bool
	// State is the directory that mount points left on the host are noted
	// in. Empty means the plan's own.
	State string
	// Notice takes one-line remarks for people. Nil drops them.
	Notice func(string)
	// Lost takes the one that says why this side ended the run; nil has Notice
	// take it.
	Lost func(string)
	// Again is asked where a launch failed before the command ran. If it says
	// that the launch will be made anew, the record gets no end yet: that is the
	// caller's to write then. Nil says no.
	Again func(Failure) bool
}

// Failure is what a launch failed at.
type Failure uint8

// The failures.
const (
	Failed      Failure = iota // bubblewrap did
	CannotRun                  // all was ready, and the stub, which has no file, wasn't run
	CannotMount                // this side was to mount covers, and can't: see [Machine.Whole]
)

// Reason is how a run ended.
type Reason string

// The reasons.
const (
	Exited       Reason = "exited"
	Signaled     Reason = "signaled"
	Timeout      Reason = "timeout"
	OOM          Reason = "oom"
	Interrupted  Reason = "interrupted"
	BoundaryLost Reason = "boundary_lost"
	Refused      Reason = "refused"
	Unavailable  Reason = "unavailable"
)

// The exit codes that are not the command's own.
const (
	CodeBoundaryLost  = 123
	CodeTimeout       = 124
	CodeRefused       = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeSignal        = 128 // plus the signal's number
)

// Exit is how the command ended.
type Exit struct {
	// Code is what the program should exit with.
	Code int `json:"code"`
	// Signal ended the command, where that can be told from a plain exit with
	// 128+n (Linux 6.15); else zero.
	Signal unix.Signal `json:"signal,omitempty"`
	Reason Reason      `json:"reason"`
	// Stop is what a stop had to deliver: "", "term" or "kill".
	Stop string `json:"stop,omitempty"`
	// Unread: nobody read the last of what the command had written, so that it is
	// lost.
	Unread bool `json:"-"`
}

// NotRunError is why a command didn't run though nothing was refused: it
// can't be executed, or the launch was interrupted.
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

// interrupted is a launch that a signal or the caller ended before the
// command ran.
func interrupted(sig unix.Signal, cause error) *NotRunError {
	e := &NotRunError{Exit: Exit{Code: CodeRefused, Reason: Interrupted}, Err: cause}
	if sig != 0 {
		e.Exit = Exit{Code: CodeSignal + int(sig), Signal: sig, Reason: Interrupted}
		e.Why = fmt.Sprintf("cannot run the command: %s came first", unix.SignalName(sig))
		return e
	}
	e.Why = fmt.Sprintf("cannot run the command: %v", cause)
	return e
}

// exitOf reads an exit from a wait status in the form that bubblewrap and
// shells give it, a code of 128+n for signal n. sig is the signal if it is
// known for sure.
func exitOf(code int, sig unix.Signal) Exit {
	if sig != 0 {
		return Exit{Code: CodeSignal + int(sig), Signal: sig, Reason: Signaled}
	}
	return Exit{Code: code, Reason: Exited}
}
