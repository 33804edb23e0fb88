// Package wire holds the messages between the supervisor and the stub that
// runs inside the boundary just before the command. It has types and their
// encoding only, and imports nothing of ours, since the stub must stay small.
//
// The supervisor writes a [Setup] whole into a sealed memfd that the stub
// inherits as descriptor [SetupFD], beside one end of a SOCK_SEQPACKET pair,
// [ControlFD]. The stub answers on the pair; descriptors and credentials
// travel in control messages:
//
//	stub -> supervisor  Hello   (SCM_CREDENTIALS: the pid; SCM_RIGHTS: listeners, then the pty)
//	supervisor -> stub  Go
//	stub -> supervisor  Ready   (everything checked; exec is the next system call)
//	        or          Failed  (nothing ran, or exec failed)
//
// Both ends are close-on-exec in the command, so the supervisor reads end of
// file once the command runs.
package wire

// The descriptors that the stub inherits.
const (
	SetupFD   = 3
	ControlFD = 4
)

// Version is compared by the stub: both sides are of one build.
const Version = 1

// Type is the kind of a packet, its first byte.
type Type byte

// The packets.
const (
	Hello Type = iota + 1
	Go
	Ready
	Failed
)

// Setup is all that the stub must know.
type Setup struct {
	Version int
	Argv    []string
	Env     []string
	Dir     string
	// Listen are TCP addresses to listen on and hand out, in order.
	Listen []string
	// TTY: open a pseudo-terminal inside, hand out its master, and make its
	// slave the command's standard streams and controlling terminal. The bits
	// say which streams are replaced (1 stdin, 2 stdout, 4 stderr).
	TTY byte
	// Rows and Cols are the first window size.
	Rows, Cols uint16
	Checks     []Check
	Landlock   Landlock
	// Umask of the caller.
	Umask int
	// Limits are rlimits (resource, soft, hard) set just before exec.
	Limits []Rlimit
	// Filter is a second seccomp program, loaded by the stub with a listener
	// whose descriptor is handed out; empty for none.
	Filter []byte
}

// Rlimit is one setrlimit(2) call.
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}

// CheckKind is what must stand at a path inside.
type CheckKind byte

// The checks.
const (
	CheckBind       CheckKind = iota + 1 // Dev and Ino are the host's; flags as ReadOnly says
	CheckEmptyDir                        // an empty read-only directory of mode Mode
	CheckEmptyFile                       // a read-only file of mode Mode holding Size bytes
	CheckAbsent                          // nothing there
	CheckPrivateDir                      // a fresh writable tmpfs (/tmp, /dev/shm)
	CheckPassDir                         // a read-only tmpfs directory of mode Mode, with mount points beneath
)

// Check is one path that must be what the Grant says, compared just before
// the command starts. The first difference refuses the launch.
type Check struct {
	Kind     CheckKind
	Path     string
	Dev, Ino uint64
	ReadOnly bool
	Mode     uint32
	Size     int64
}

// Landlock is the second layer: below Writable (and nowhere else) files may
// be written, made, removed and renamed.
type Landlock struct {
	Enabled  bool
	Writable []string
	// WriteFiles may be written but are no directories (/dev/null …).
	WriteFiles []string
	// Scope: signals and abstract sockets stay inside (ABI 6).
	Scope bool
}

// Failure is the body of a Failed packet.
type Failure struct {
	// Step is the stub's step: "check", "chdir", "exec", "landlock" …
	Step string
	Path string
	// Errno is zero where no system call failed.
	Errno int
	Text  string
}
