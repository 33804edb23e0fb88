package bwrap

import (
	"io"

	"pinfold/bwrap/cgroup"
	"pinfold/guard"
	"pinfold/lease"
	"pinfold/notify"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub"
	"pinfold/stub/wire"
)

// StubPath is where the stub stands inside. A path under /dev can always be
// made, since /dev is the launch's own; one under / can't once the root is
// read-only.
const StubPath = "/dev/.pinfold"

// StubFile is the stub where it needs no file inside: the memfd that bubblewrap
// inherits, as its own /proc names it. That spares bubblewrap the copying of a
// million and a half bytes, and a mount.
const StubFile = "/proc/self/fd/6"

// ProxyAddress is where the proxy listens on the sandbox's own loopback.
const ProxyAddress = "127.0.0.1:3128"

// The names of the descriptors that every launch has.
const (
	DataSeccomp = "seccomp" // the base filter, for bwrap --seccomp
	DataStub    = "stub"    // the stub program
)

// Machine is what a translation needs to know of the machine it is for. Probe
// fills it; tests hand it in.
type Machine struct {
	Bwrap       plan.Tool
	Version     [3]int // of bubblewrap
	Arch        string // GOARCH of the kernel's native ABI
	LandlockABI int    // 0 when the kernel has none
	// Notify: the supervisor can answer system calls; NotifyWhy says why not.
	Notify    bool
	NotifyWhy string
	// SocketsWhy says why it can't be told whose a unix socket is, or "".
	SocketsWhy string
	UID, GID   int // the caller's, who is the same inside
	// Resolv and Hosts are /etc/resolv.conf and /etc/hosts, or where a link
	// there leads; "" where there is none.
	Resolv, Hosts string
	Hostname      string
	IPv6          bool // the kernel has it
	RunsMemfd     bool // it lets a memfd be executed
	// Whole: bubblewrap has to mount everything, since this side can't.
	Whole bool

	// Root is what stands at /, Sys what stands at /sys.
	Root, Sys guard.FileID
	// Private are /tmp and /var/tmp, less those that are missing or links.
	Private []string
	// Devices are those of /dev that the command could give another mode.
	Devices []ProcEntry
	// ProcMasks are the entries of /proc that tell or do too much, where they
	// exist and the caller could open them.
	ProcMasks []ProcEntry
	// ProcReadOnly are the entries of /proc, /proc/sys among them, that hold
	// files the caller could write though they belong to no process.
	ProcReadOnly []ProcEntry
}

// ProcEntry is one entry of /proc that belongs to no process.
type ProcEntry struct {
	Path string
	Dir  bool
	ID   guard.FileID
}

// Options are the caller's choices that aren't in the Grant.
type Options struct {
	// Umask of the caller, passed on to the command.
	Umask int
	// Fresh names directories that were made for this launch alone, so that
	// the Plan can speak of them by name and stay the same from run to run.
	Fresh []Fresh
	// Pinfold is the path of the executable that "pinfold connect" is called
	// by, for ssh; "" leaves ssh as it is.
	Pinfold string
	// Parts replaces the embedded stub and filter; tests set it.
	Parts *Parts
}

// Fresh is a directory made for one launch: the Plan has Name where the
// arguments have Path.
type Fresh struct {
	Name string // "{run}"
	Path string
}

// Parts are the programs that a launch hands to bubblewrap.
type Parts struct {
	Stub       []byte
	StubSHA256 string // in hexadecimal; "" to have it computed
	Filter     []byte
	// Notify is the second seccomp program. Without it nothing is handed over
	// to the supervisor, as on a machine that can't.
	Notify []byte

	// hand is the program for a launch by hand, which has no supervisor.
	hand []byte
	// program stands for Stub.
	program *stub.Program
}

// stub is the stub as bubblewrap gets it.
func (p *Parts) stub() Datum {
	return Datum{Name: DataStub, Content: p.Stub, file: p.program, sum: p.StubSHA256}
}

// Launch is a Grant translated: complete, and pure data.
type Launch struct {
	Plan *plan.Plan
	// Args are bubblewrap's arguments up to, and without, "--" and the stub.
	// A descriptor is "{fd:NAME}", an argument of its own, until the start.
	// They go to bubblewrap NUL-separated through --args, so that nothing of
	// the policy shows in a process list:
	//
	//	bwrap --args N -- /proc/self/fd/6
	Args []string
	// Stub is what bubblewrap is to execute: [StubFile] or [StubPath].
	Stub string
	// Data are the descriptors to hand to bubblewrap, each used once, in the
	// order in which Args names them. That of [StubFile] is in none.
	Data []Datum
	// Setup is for the stub. Listen is already set; the supervisor fills
	// TTY, Rows and Cols.
	Setup wire.Setup
	// Proxy is where the proxy's listener is asked for (also Setup.Listen[0]),
	// or "" when no host is allowed and there is no listener at all.
	Proxy string
	// Ghosts are the paths on the host that bubblewrap makes as mount points
	// because nothing stands there yet, parents before children. Whoever runs
	// the launch removes them afterwards, if they are still empty.
	Ghosts []Ghost

	// Watches are the names on the host that must not appear while the launch
	// runs.
	Watches []guard.Watch
	// judge knows what a mount that is made later would show.
	judge judge
	// later are the covers that bubblewrap leaves to the supervisor.
	later []later
	// recipes say how what hides a path is made anew.
	recipes map[string]recipe

	// Sockets are the unix sockets that may be connected to, where the filter
	// hands connections over (Setup.Filter).
	Sockets []notify.Socket
	// Transparent: connections and names are carried without a proxy. Egress
	// must be a [Transparent] then.
	Transparent bool
	// uses say what the sockets of Setup.Sockets are for, in order.
	uses   []socketUse
	expose []policy.Expose
	// AllSockets: those handed over may be to any unix socket.
	AllSockets bool

	// Limits bound the run.
	Limits policy.Limits
	// cgroup: some limit needs one, or the policy insists, and then on every
	// controller. place is where to make it.
	cgroup, allControllers bool
	place                  *cgroup.Place

	// form is the plan's, where it is being written already.
	form *plan.Form

	// For Shell: the values that the policy writes, and the directories that
	// were made for this launch alone.
	setEnv map[string]string
	fresh  []Fresh
	hand   []byte // the filter
}

// WritePlan begins to write the plan down, which nobody changes from here on.
func (l *Launch) WritePlan() { l.form = plan.WriteForm(l.Plan) }

// Datum is the content of one descriptor. Empty content may be /dev/null.
type Datum struct {
	Name    string
	Content []byte // but the stub's: see WriteTo

	file *stub.Program // has the content instead
	sum  string        // SHA-256 of the content, where it is known already
}

// WriteTo writes the content.
func (d *Datum) WriteTo(w io.Writer) (int64, error) {
	if d.file != nil {
		return d.file.WriteTo(w)
	}
	n, err := w.Write(d.Content)
	return int64(n), err
}

func (d *Datum) size() int64 {
	if d.file != nil {
		return d.file.Size()
	}
	return int64(len(d.Content))
}

// Ghost is a mount point that shows on the host.
type Ghost = lease.Point
