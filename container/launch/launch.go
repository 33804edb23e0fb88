package launch

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"pinfold/container"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// Streams are the command's standard streams. They are handed on as they are,
// less a terminal, in whose place the command gets one made inside: no
// descriptor of the operator's terminal gets there.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
}

// Egress serves what leaves through one listener.
type Egress interface {
	Serve(ctx context.Context, l net.Listener) error
	Close() error
}

// Options are one run.
type Options struct {
	Provider container.Provider
	Launch   *container.Launch
	// Dirs are those that the launch was planned with.
	Dirs Dirs
	// Keep are directories that were made for this launch and lie elsewhere.
	Keep []string
	// Owner labels the launch; of one execution one container runs.
	Owner guard.Owner
	Streams
	// Egress makes what serves the proxy's listener; it is called once, and
	// only for a launch that has one.
	Egress func() (Egress, error)
	// Terminal is for streams that are one. Without it they are copied.
	Terminal Terminal
	// Network is what Egress serves, for another supervisor.
	Network policy.Network
	// Watch watches names on the host: the launch's Watches, which must not
	// appear, and paths, which must stay; changed looks, and lost ends the run.
	Watch func(paths []string, changed func() error, lost func(error)) (Names, error)
	// Listening are the unix sockets that the host listens on, for launches with
	// a Reach: [container.Host]'s.
	Listening func(ctx context.Context, shown *container.Reach, search bool) ([]string, error)
	// Record is where the plan and the container are pinned, and the end noted.
	Record *plan.Record
	Events event.Sink
	// AllFlows reports what was allowed, too.
	AllFlows bool
	Run      string // the run's name in events
	// Grace is how long a stop waits between SIGTERM and SIGKILL; zero means
	// ten seconds.
	Grace time.Duration
	// Forward hands the signals that this process gets on to the command.
	Forward bool
	// State is pinfold's state directory.
	State string
	Umask int
	// Notice takes one-line remarks for people. Nil drops them.
	Notice func(string)
	// Lost takes the one that says why this side ended the run; nil has Notice
	// take it.
	Lost func(string)
}

// Terminal stands between the operator's terminal and the one that is made in
// the container.
type Terminal interface {
	// Bits are those of the stub's Setup.TTY: which streams are the terminal.
	Bits() byte
	Size() (rows, cols uint16)
	// Take takes the master of the one inside; the descriptor is its own then.
	Take(fd int) error
	// Start carries what is written, Open what is typed.
	Start()
	Open()
	Resize()
	// Stopped and Wanted are what the stub reports of the command; resume
	// continues it, and Continued is for a continued supervisor.
	Stopped(resume func())
	Wanted(resume func())
	Continued(resume func())
	// Finish gives the operator's back. started: the command ran, and ended.
	Finish(started bool)
}

// Names is a watch of names that has begun.
type Names interface {
	// Finish ends it, when nothing of the launch is left.
	Finish() error
}

// Reason is how a run ended.
type Reason string

// The reasons.
const (
	Exited      Reason = "exited"
	Signaled    Reason = "signaled"
	Timeout     Reason = "timeout"
	OOM         Reason = "oom"
	Interrupted Reason = "interrupted"
	// BoundaryLost: what was mounted in the container is no more.
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
	Code   int
	Signal syscall.Signal
	Reason Reason
	// Stop is what a stop had to deliver: "", "term" or "kill".
	Stop string
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

const defaultGrace = 10 * time.Second

func (o *Options) grace() time.Duration {
	if o.Grace <= 0 {
		return defaultGrace
	}
	return o.Grace
}

func (o *Options) notice(text string) {
	if o.Notice != nil {
		o.Notice(text)
	}
}

func (o *Options) emit(e event.Event) {
	if o.Events == nil {
		return
	}
	e.Time, e.Run = time.Now(), o.Run
	o.Events.Emit(e)
}
