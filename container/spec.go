package container

import (
	"pinfold/guard"
	"pinfold/plan"
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
	// Tools are host files to show first on PATH, in ToolsDir.
	Tools []string
	// Fresh names directories made for this launch alone, as the plan calls
	// them.
	Fresh map[string]string
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
	// Watches are names in write grants that must not appear on the host
	// while the launch runs.
	Watches []guard.Watch
	// Checks are the mounts as the stub has to find them.
	Checks []Check
}

// Spec is one container as an engine is asked for it. It holds no secret and
// nothing of the command: those reach the stub through the hand-over.
type Spec struct {
	Name       string            `json:"name,omitempty"`
	Image      string            `json:"image"` // an ID, never a name
	Entrypoint []string          `json:"entrypoint"`
	Args       []string          `json:"args,omitempty"`
	Env        []string          `json:"env,omitempty"` // the stub's own
	Dir        string            `json:"dir"`
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Userns     string            `json:"userns,omitempty"` // "", "host", "keep-id"
	Hostname   string            `json:"hostname"`
	Mounts     []Mount           `json:"mounts"`
	Tmpfs      []Tmpfs           `json:"tmpfs"`
	Labels     map[string]string `json:"labels"`
	Limits     Limits            `json:"limits"`
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
}

// Limits are resource bounds; zero is none, but for PIDs, which are always
// bounded.
type Limits struct {
	CPUs     float64 `json:"cpus,omitempty"`
	Memory   int64   `json:"memory,omitempty"` // bytes; swap is off then
	PIDs     int64   `json:"pids"`
	Files    int64   `json:"files,omitempty"`
	FileSize int64   `json:"file_size,omitempty"`
}

// Check is one mount as the stub must find it: the host's own object at a
// bind, and a cover that answers as it should.
type Check struct {
	Path     string
	Access   guard.Access
	Kind     guard.Kind
	ID       guard.FileID // of the host's object; zero for a cover or a tmpfs
	ReadOnly bool
}
