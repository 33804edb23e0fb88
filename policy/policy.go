package policy

import "time"

// Policy is one policy document, merged with what it extends. The zero value
// is the tightest useful policy: the host readable less the default denies,
// nothing writable but the run directory and private temporary directories,
// no network, no sockets.
type Policy struct {
	Version        int
	Extends        []string // as written; Load has already merged them
	Tier           Tier
	Write          []PathRule
	Read           Read
	ReadOnly       []PathRule
	GuardWorkspace GuardWorkspace
	HardLinks      HardLinks
	Network        Network
	Sockets        []PathRule
	UnixSockets    UnixSockets
	Env            Env
	Limits         Limits
	Require        []string
	Container      Container

	// Given names the top-level and dotted fields that the document sets
	// ("network.mode"), so that a launch can refuse a field whose
	// enforcement isn't built instead of ignoring it.
	Given map[string]Position

	// Sources are the files that the policy was made of, the document first,
	// then what it extends, each with the digest of the very bytes that were
	// parsed: whoever trusted a file trusted these. Parse leaves it empty.
	Sources []Source
}

// Source is one file of a policy.
type Source struct {
	File   string // absolute, as opened
	SHA256 [32]byte
}

// Position is a place in a policy file; Line and Column count from one.
type Position struct {
	File   string
	Line   int
	Column int
}

// Tier chooses the kind of boundary.
type Tier string

// The tiers.
const (
	TierProcess   Tier = "process"
	TierContainer Tier = "container"
)

// PathRule is one path of a policy as it was written, with what it takes to
// expand it. It is untrusted text until the guard resolves it.
type PathRule struct {
	// Text is the path as written, without the leading "?" of an optional one.
	Text string
	// Optional: left out when missing (written "?path").
	Optional bool
	// Literal: pattern characters stand for themselves; no placeholder, "~"
	// or "./" is expanded either.
	Literal bool
	// As is how a denied path looks; only deny lists set it.
	As DenyLook
	// Base is the directory of the policy file, for paths that start "./".
	Base string
	// Source names the entry for people: "write[0]".
	Source string
	// At is where the entry stands.
	At Position
}

// DenyLook is how a denied path answers.
type DenyLook string

// The looks. The zero value means DenyError for a policy's deny.
const (
	DenyError DenyLook = "error" // EACCES
	DenyEmpty DenyLook = "empty" // an empty, read-only file or directory
)

// ReadBase is what is readable before any rule.
type ReadBase string

// The bases; the zero value means BaseHost.
const (
	BaseHost   ReadBase = "host"
	BaseSystem ReadBase = "system"
	BaseNone   ReadBase = "none"
)

// Read is the "read" object.
type Read struct {
	Base  ReadBase
	Deny  []PathRule
	Allow []PathRule
}

// GuardWorkspace is the "guard_workspace" field: true, false, or an object
// with exceptions. The zero value guards everything.
type GuardWorkspace struct {
	Off    bool
	Except []string
}

// HardLinks is the "hard_links" field. The zero value refuses.
type HardLinks struct {
	AllowFrom []PathRule
}

// NetworkMode is how egress reaches the supervisor.
type NetworkMode string

// The modes; the zero value means ModeAuto.
const (
	ModeAuto        NetworkMode = "auto"
	ModeProxy       NetworkMode = "proxy"
	ModeTransparent NetworkMode = "transparent"
)

// Network is the "network" object.
type Network struct {
	Allow         []HostPattern
	Deny          []HostPattern
	Mode          NetworkMode
	VerifyTLSName *bool
	HostPorts     []uint16
	Expose        []Expose
	Budget        Budget
	// Upstream is "", "env" or a proxy URL.
	Upstream string
}

// Expose is one entry of network.expose: "[address:]outside[:inside]".
type Expose struct {
	Address string // host address to bind; "" means loopback
	Outside uint16
	Inside  uint16
	Text    string
}

// Budget is network.budget; zero means no bound.
type Budget struct {
	BytesUp     int64
	Connections int64
	Hosts       int64
}

// UnixSockets is the "unix_sockets" field; the zero value means SocketsListed.
type UnixSockets string

// The values of unix_sockets.
const (
	SocketsListed UnixSockets = "listed"
	SocketsAll    UnixSockets = "all"
)

// Env is the "env" object.
type Env struct {
	Set     map[string]string
	Drop    []string // names, a trailing "*" matches any rest
	Secrets []string // credential-like names that are passed on all the same
}

// Limits is the "limits" object; zero means none.
type Limits struct {
	CPUs        float64
	Memory      int64
	PIDs        int64
	Files       int64
	FileSize    int64
	Tmp         int64
	Timeout     time.Duration
	IdleTimeout time.Duration
}

// Container is the "container" object.
type Container struct {
	Runtime string
	Context string
	Image   string
	Build   *Build
	Mounts  []ContainerMount
}

// Build is container.build: exactly one of Base with Install,
// DockerfileInline, Dockerfile.
type Build struct {
	Base             string
	Install          []string
	DockerfileInline string
	Dockerfile       *PathRule
	// Trusted is the content address of what was trusted along with the
	// policy: nothing else is built. Parse leaves it empty, for anything.
	Trusted string
}

// ContainerMount is one entry of container.mounts.
type ContainerMount struct {
	Source PathRule
	Target string
	Mode   string // "ro" (default) or "rw"
}
