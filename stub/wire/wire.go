// Package wire holds the messages between the supervisor and the stub that
// runs inside the boundary just before the command. It has types and their
// encoding only, and imports nothing of ours, since the stub must stay small.
//
// The supervisor writes a [Setup] whole into a sealed memfd that the stub
// inherits as descriptor [SetupFD], beside one end of a SOCK_SEQPACKET pair,
// [ControlFD]. The stub answers on the pair; descriptors and credentials
// travel in control messages:
//
//	stub -> supervisor  Hello   (SCM_CREDENTIALS: the pid; SCM_RIGHTS: see [Greeting])
//	supervisor -> stub  Go      (once the boundary is watched, be it before Hello)
//	stub -> supervisor  Tried   (what the plan claims holds; see [Canaries])
//	supervisor -> stub  Go      (where [Setup.Hold] says to wait for it)
//	stub -> supervisor  Ready   (everything checked; exec is the next system call)
//	        or          Failed  (nothing ran, or exec failed)
//
// Both ends are close-on-exec in the command, so the supervisor reads end of
// file once the command runs.
//
// With a terminal as standard input (TTYStdin) the stub stays: it is the
// session leader whose controlling terminal the new one is, and runs the command as its child, in
// a process group of its own in the foreground. Only so can the command be
// stopped: the kernel ignores SIGTSTP in an orphaned process group, and a
// session leader's own group is always one (setpgid(2), credentials(7)).
//
//	stub -> supervisor  Started (after Ready, SCM_RIGHTS: a pidfd of the command)
//	stub -> supervisor  Stopped (each time the command was stopped)
//	stub -> supervisor  Wants   (TTYLater: once, stopped for using the terminal)
//
// The supervisor continues the command's process group by itself. When the
// command has ended, the stub ends with its code, or 128+n for a signal.
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
	Started
	Stopped
	Wants
	Tried
)

// The stub's steps, in order, as a Failure names them.
const (
	StepSetup      = "setup"      // the Setup can't be read, or isn't sealed
	StepListen     = "listen"     // a listener or another socket can't be made
	StepTerminal   = "terminal"   // the pseudo-terminal can't be made
	StepFilter     = "filter"     // the second seccomp program can't be loaded
	StepHello      = "hello"      // the supervisor can't be told, or didn't say Go
	StepPrivileges = "privileges" // a capability, no no_new_privs, no seccomp filter
	StepCheck      = "check"      // a path inside isn't what the Grant says
	StepDir        = "chdir"      // the working directory can't be entered
	StepLimit      = "limit"      // an rlimit can't be set
	StepClose      = "close"      // a descriptor can't be kept from the command
	StepSignals    = "signals"    // a signal's disposition can't be set
	StepLandlock   = "landlock"   // Landlock can't be applied
	StepCanary     = "canary"     // what the plan claims, tried as the command would, doesn't hold
	StepExec       = "exec"       // the command can't be executed; ENOENT: not found
)

// LandlockABI is the least Landlock version the stub applies: version 1
// (Linux 5.13 to 5.18) can't allow renames between directories.
const LandlockABI = 2

// Setup is all that the stub must know.
type Setup struct {
	Version int
	Argv    []string
	Env     []string
	Dir     string
	// Stderr is the descriptor that becomes the command's standard error,
	// since bubblewrap's own is kept apart: what bubblewrap says must never
	// mix with what the command says. The stub makes it descriptor 2 just
	// before the exec. Zero: descriptor 2 is the command's already.
	Stderr int
	// Listen are TCP addresses to listen on and hand out, in order.
	Listen []string
	// Sockets are made and handed out as they are, in order, after the
	// listeners: sockets of the sandbox's network namespace, which the
	// supervisor may bind to a port that the stub may not.
	Sockets []Socket
	// TTY: open a pseudo-terminal inside, hand out its master, and make its
	// slave the standard streams that the bits name. With TTYStdin it is the
	// command's controlling terminal as well.
	TTY byte
	// Rows and Cols are the first window size.
	Rows, Cols uint16
	Checks     []Check
	Landlock   Landlock
	// Umask of the caller.
	Umask int
	// Hold: wait for another Go after Tried, so that the supervisor can go on
	// with its own work while the stub compares.
	Hold bool
	// Limits are rlimits (resource, soft, hard) set just before exec.
	Limits []Rlimit
	// IgnoreSignals are the signals that the caller ignored (nohup's SIGHUP)
	// and the command ignores too, as a set in the form of SigIgn in proc(5):
	// bit n-1 is signal n. All others are the default.
	IgnoreSignals uint64
	// Calls are system calls that the filters must answer as they say.
	Calls []Call
	// HostReadOnly are write grants that can't be written on the host either.
	HostReadOnly []string
	// ShareSignals leaves half of the signals that may wait (RLIMIT_SIGPENDING)
	// to pid 1. When that many wait the kernel goes on to deliver what
	// tgkill(2) sends, without its sender, as if it had come from outside.
	ShareSignals bool
	// Filter is a second seccomp program, loaded by the stub with a listener
	// whose descriptor is handed out; empty for none.
	Filter []byte
	// Inner is a second seccomp program without a listener, which the stub loads
	// before everything else; empty for none.
	Inner []byte
}

// The bits of Setup.TTY.
const (
	TTYStdin = 1 << iota
	TTYStdout
	TTYStderr
	// TTYLater: the command starts in the background of its terminal and
	// comes to the front when it first uses it, since in "command | less" the
	// keys are another program's until then.
	TTYLater
)

// Socket is one socket(2) call.
type Socket struct {
	Domain, Type, Protocol int
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
	Kind CheckKind
	Path string
	// Dev and Ino name the host's object. Of what a cover or a private
	// directory hides Dev alone is set, 0 where nothing stands: a host's own
	// tmpfs must not pass for a fresh one. A bind without Dev is of /proc, whose
	// inode numbers are the same in each.
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
	// Step is one of the Step constants.
	Step string
	Path string
	// Errno is zero where no system call failed.
	Errno int
	Text  string
}

// Call is one system call with numbers as arguments, and what it must answer.
type Call struct {
	Name   string
	Number uint32
	Args   [6]uint64
	// Errno is the answer; zero is a new descriptor.
	Errno uint32
}

// Canaries is the body of a Tried packet: how many claims of each kind were
// tried, and held. Left are those that weren't: past the bound, or of files
// that nobody should open to see. Micros is how long it took, in microseconds.
type Canaries struct {
	Denied, ReadOnly, Writable, Calls, Hosts, Left int
	Micros                                         int
}
