package guard

import (
	"errors"
	"io"

	"pinfold/policy"
)

// Access is what holds at a path.
type Access uint8

// The accesses, from the least.
const (
	Deny      Access = iota + 1 // answers EACCES: mode 0000, or 0111 where Passable
	Empty                       // looks empty: 0555 directory, 0444 file, read-only
	ReadOnly                    // readable, never writable
	ReadWrite                   // readable and writable
)

// String is the word used in plans and messages.
func (a Access) String() string {
	switch a {
	case Deny:
		return "deny"
	case Empty:
		return "empty"
	case ReadOnly:
		return "read-only"
	case ReadWrite:
		return "read-write"
	}
	return "invalid"
}

// Kind is what stands at a path on the host.
type Kind uint8

// The kinds. Missing means nothing stands there.
const (
	Missing Kind = iota
	Dir
	File  // regular file
	Other // socket, FIFO, device
)

// FileID names a file system object.
type FileID struct {
	Dev uint64
	Ino uint64
}

// Class is who made a rule; it orders rules at one path and words messages.
type Class string

// The classes.
const (
	ClassPolicy    Class = "policy"    // a list of the policy document
	ClassCaller    Class = "caller"    // --needs deny and read_only, --env …
	ClassDefault   Class = "default"   // default denies and escape sockets
	ClassGuarded   Class = "guarded"   // guarded workspace files
	ClassProtected Class = "protected" // the caller's protected set, state and record
	ClassBuiltin   Class = "built-in"  // run directory, workspace of the built-in policy
)

// Rule says where an entry comes from.
type Rule struct {
	Class  Class  `json:"class"`
	Text   string `json:"text"`   // as written: "~/.ssh"
	Source string `json:"source"` // "policy.json:4:12 read.deny[0]", "default denies"
}

// Entry is one rule that holds at a canonical path. Entries of a Grant are
// sorted so that a path comes after everything above it, and none repeats
// what the nearest entry above already says.
type Entry struct {
	Path   string // canonical: absolute, clean, no symbolic link in it
	Access Access
	Kind   Kind
	ID     FileID // of the host's object; zero when Kind is Missing
	// Passable: denied or empty, but something beneath is granted, so the
	// directory can be passed through (0111) though not listed.
	Passable bool
	// Content is what an Empty file holds ("{}" for .json).
	Content []byte
	Rule    Rule
}

// Pin is an existing directory between a write grant and something covered
// beneath it, whose name must not be renamed or removed. Back ends bury it.
type Pin struct {
	Root string // path of the ReadWrite entry it lies in
	Path string
	ID   FileID
}

// Socket is one unix socket that may be connected to.
type Socket struct {
	Path string
	ID   FileID
	Rule Rule
}

// Grant is a launch that the guard has let through. Only GuardLaunch makes
// one; its fields can't be changed. Slices returned by its methods are the
// Grant's own and must not be modified.
type Grant struct {
	tier      policy.Tier
	base      policy.ReadBase
	entries   []Entry
	pins      []Pin
	sockets   []Socket
	network   policy.Network
	unix      policy.UnixSockets
	limits    policy.Limits
	require   []string
	argv      []string
	dir       string
	env       []string
	withheld  []string
	paths     Paths
	owner     Owner
	notes     []string
	policy    *policy.Policy
	watches   []Watch
	absent    []Entry
	links     []Link
	lattice   *lattice
	table     *mountTable
	fs        fsys
	held      []io.Closer
	mappings  []Mapping
	spellings []Spelling

	directories *Directories
}

// Paths are the launch's own canonical paths.
type Paths struct {
	Workspace string `json:"workspace,omitempty"`
	Run       string `json:"run,omitempty"`
	Toolbelt  string `json:"toolbelt,omitempty"`
	Home      string `json:"home,omitempty"`
	Record    string `json:"record,omitempty"`
	State     string `json:"state,omitempty"`
	Tmp       string `json:"tmp"` // TMPDIR inside
}

// Tier is the boundary asked for.
func (g *Grant) Tier() policy.Tier { return g.tier }

// Base is what is readable before any entry.
func (g *Grant) Base() policy.ReadBase { return g.base }

// Entries are the rules that hold, parents before children.
func (g *Grant) Entries() []Entry { return g.entries }

// Pins are the directories whose names must hold, parents before children.
func (g *Grant) Pins() []Pin { return g.pins }

// Watches are the names in write grants that must not appear while the launch
// runs, parents before children.
func (g *Grant) Watches() []Watch { return g.watches }

// Absent are the denied names, in what is readable and not writable, under
// which nothing stands: nobody inside can make one, but what the host makes
// there while the launch runs must not show. All are Missing.
func (g *Grant) Absent() []Entry { return g.absent }

// Links are the symbolic links that have to exist inside, parents before
// children.
func (g *Grant) Links() []Link { return g.links }

// Close lets the descriptors go that keep what was checked. Call it when the
// launch has ended, or was given up.
func (g *Grant) Close() error {
	var errs []error
	for _, h := range g.held {
		errs = append(errs, h.Close())
	}
	g.held = nil
	return errors.Join(errs...)
}

// Sockets are the unix sockets that may be connected to.
func (g *Grant) Sockets() []Socket { return g.sockets }

// Network is what may leave.
func (g *Grant) Network() policy.Network { return g.network }

// UnixSockets says whether only Sockets may be reached, or any visible one.
func (g *Grant) UnixSockets() policy.UnixSockets { return g.unix }

// Limits are the resource bounds.
func (g *Grant) Limits() policy.Limits { return g.limits }

// Require lists the layers without which nothing may run.
func (g *Grant) Require() []string { return g.require }

// Argv is the command, byte for byte.
func (g *Grant) Argv() []string { return g.argv }

// Dir is the canonical directory where the command starts.
func (g *Grant) Dir() string { return g.dir }

// Env is the command's whole environment, sorted by name, less what the back
// end itself adds (proxy variables).
func (g *Grant) Env() []string { return g.env }

// Withheld names the credential-like variables that were left out.
func (g *Grant) Withheld() []string { return g.withheld }

// Paths are the launch's own canonical paths.
func (g *Grant) Paths() Paths { return g.paths }

// Owner is the caller's label.
func (g *Grant) Owner() Owner { return g.owner }

// Notes are one-line remarks that belong in the plan: write-through stores,
// trees that were not walked.
func (g *Grant) Notes() []string { return g.notes }

// Directories are those of the write grants, as they were. nil where this
// platform can't tell.
func (g *Grant) Directories() *Directories { return g.directories }

// Policy is the document the Grant was made from.
func (g *Grant) Policy() *policy.Policy { return g.policy }
