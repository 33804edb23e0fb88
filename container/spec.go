package container

import (
	"pinfold/guard"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// Where things stand inside. No image has the directory; the engine makes it
// in the container's own layer, beneath the read-only root.
const (
	OwnDir   = "/.pinfold"
	StubPath = OwnDir + "/init" // the stub, a read-only bind
	RunDir   = OwnDir + "/run"  // Options.Handover, a read-only bind
	ToolsDir = OwnDir + "/bin"  // Options.Tools, first on PATH
	// SocketName is the supervisor's socket in RunDir.
	SocketName = "s"
)

// The labels that every container of ours carries. The supervisor sets them
// through [Options.Labels].
const (
	LabelHost      = "dev.pinfold.host"      // names the state directory
	LabelRecord    = "dev.pinfold.record"    // the record directory
	LabelExecution = "dev.pinfold.execution" // guard.Owner
	LabelSegment   = "dev.pinfold.segment"
	LabelDigest    = "dev.pinfold.digest" // of the plan
)

// Options are the caller's choices that aren't in the Grant.
type Options struct {
	// Image is what to run: the policy's, $PINFOLD_IMAGE or what was built.
	Image string
	// Stub is the stub on the host: a file of mode 0555 that nothing granted
	// reaches. StubSHA256 is its digest.
	Stub, StubSHA256 string
	// Handover is the host directory with the supervisor's socket in it,
	// mounted read-only as RunDir. The name of a unix socket has at most 107
	// bytes, unix(7).
	Handover string
	// Scratch is a host directory of this launch alone, where [Covers.Make]
	// makes what denied paths are covered with.
	Scratch string
	// UID and GID are the operator's, whom the command runs as.
	UID, GID int
	Labels   map[string]string
	// Args are the stub's arguments. They show in inspect and ps.
	Args []string
	// Relays is a host directory of this launch alone, for the sockets that the
	// supervisor stands in for.
	Relays string
	// Tools are host files to show first on PATH, in ToolsDir.
	Tools []string
}

// Launch is a Grant translated for an engine: complete, and pure data.
type Launch struct {
	Plan   *plan.Plan
	Spec   Spec
	Covers Covers
	Image  Image
	Info   Info
	// Argv is the command and Env its whole environment, the image's
	// included and secrets too: both travel in the hand-over's answer and
	// stand nowhere else. What named a granted path through a symbolic link
	// names the canonical path.
	Argv, Env []string
	Dir       string
	// Listen are the addresses that the stub listens on, Proxy the one of
	// them that speaks HTTP and SOCKS; "" with no host allowed.
	Listen []string
	Proxy  string
	// HostPorts are the ports of the host's loopback that the others carry.
	HostPorts []uint16
	// Relays are the listed sockets that the supervisor stands in for. Their
	// directories have to be there before the container is made.
	Relays []Relay
	// Reach is nil where the host's unix sockets may all be connected to.
	Reach *Reach
	// Limits are all of the policy's, those included that the supervisor keeps
	// itself: the timeouts.
	Limits policy.Limits
	// Watches are names in write grants that must not appear on the host
	// while the launch runs.
	Watches []guard.Watch
	// Missing are mount points to make on the host before the container is made,
	// parents before children, and to take away once it has gone. Covered are all
	// paths of the host that something is mounted over in a write grant, or that
	// are granted themselves.
	Missing []lease.Point
	Covered []string
	// Checks are the mounts as the stub has to find them, less the covers,
	// which [Covers.Make] knows once they are made, and what is Missing.
	Checks []wire.Check
}

// Spec is one container as an engine is asked for it. It holds no secret and
// nothing of the command: those reach the stub through the hand-over.
type Spec struct {
	Name       string   `json:"name,omitempty"`
	Image      string   `json:"image"` // an ID, never a name
	Entrypoint []string `json:"entrypoint"`
	Args       []string `json:"args,omitempty"`
	Env        []string `json:"env,omitempty"` // the stub's own
	Dir        string   `json:"dir"`
	UID        int      `json:"uid"`
	GID        int      `json:"gid"`
	Userns     string   `json:"userns,omitempty"` // "", "host", "keep-id"
	Hostname   string   `json:"hostname"`
	Mounts     []Mount  `json:"mounts"`
	Tmpfs      []Tmpfs  `json:"tmpfs"`
	// Volumes are the image's own, shown read-only.
	Volumes []string `json:"volumes,omitempty"`
	// ShmSize bounds /dev/shm, in bytes.
	ShmSize int64             `json:"shm_size"`
	Labels  map[string]string `json:"labels"`
	Limits  Limits            `json:"limits"`
	// Seccomp is a profile in the engines' JSON form.
	Seccomp []byte `json:"seccomp"`
	// MaskedPaths answer nothing, ReadonlyPaths can't be written.
	MaskedPaths   []string `json:"masked_paths"`
	ReadonlyPaths []string `json:"readonly_paths"`
}

// Mount is one bind: the engine must refuse a missing source, never make it,
// and take no submount's own propagation.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

// Tmpfs is a private directory, owned by the command's user.
type Tmpfs struct {
	Target string `json:"target"`
	Size   int64  `json:"size"` // bytes
	Mode   uint32 `json:"mode"`
	Exec   bool   `json:"exec"` // programs in it may be run
}

// Limits are resource bounds; zero is none, but processes are always bounded.
type Limits struct {
	CPUs   float64 `json:"cpus,omitempty"`
	Memory int64   `json:"memory,omitempty"` // bytes, with swap off
	PIDs   int64   `json:"pids,omitempty"`
	// Processes bounds the user's processes instead (RLIMIT_NPROC), where the
	// engine has no cgroup to count in.
	Processes int64 `json:"processes,omitempty"`
	Files     int64 `json:"files,omitempty"`
	FileSize  int64 `json:"file_size,omitempty"`
}
