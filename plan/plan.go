// Package plan is the exact launch a back end is about to make, and its
// record on disk. A Plan is complete: running it needs nothing else. Its
// digest is the SHA-256 of its canonical JSON (RFC 8785).
package plan

import "pinfold/guard"

// Plan is what a back end will do. It holds no secret: environment variables
// are listed by name, with a digest of the values that are not secret.
type Plan struct {
	Version   int         `json:"version"`
	Backend   string      `json:"backend"` // bwrap, docker, podman, …
	Tool      Tool        `json:"tool"`
	Args      []string    `json:"args"` // back end's arguments; descriptors by name: "{fd:seccomp}"
	Data      []Data      `json:"data,omitempty"`
	Command   []string    `json:"command"`
	Dir       string      `json:"dir"`
	EnvNames  []string    `json:"env_names"`
	Withheld  []string    `json:"env_withheld,omitempty"`
	Mounts    []Mount     `json:"mounts"`
	Hosts     []string    `json:"hosts,omitempty"`
	DenyHosts []string    `json:"deny_hosts,omitempty"`
	Terms     []string    `json:"network_terms,omitempty"` // what else the policy says of the network
	Sockets   []string    `json:"sockets,omitempty"`
	Listeners []string    `json:"listeners,omitempty"`
	Layers    []Layer     `json:"layers"`
	Filter    Filter      `json:"filter"`
	Limits    []Limit     `json:"limits,omitempty"`
	Signals   Signals     `json:"signals"`
	Require   []string    `json:"require,omitempty"`
	Owner     guard.Owner `json:"owner"`
	Paths     guard.Paths `json:"paths"`
	Notes     []string    `json:"notes,omitempty"`
	Stub      string      `json:"stub"` // SHA-256 of the stub program
}

// Tool is the program that makes the boundary.
type Tool struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// Data is a descriptor handed to the back end, by name and digest.
type Data struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Mount is one line of the mount table inside, with the rule that made it.
type Mount struct {
	Path   string     `json:"path"`
	Access string     `json:"access"` // read-only, read-write, deny, empty, private, pin
	Kind   string     `json:"kind"`   // bind, tmpfs, data, proc, dev, symlink, remount
	Source string     `json:"source,omitempty"`
	Rule   guard.Rule `json:"rule"`
}

// Layer is one thing that holds the boundary, and whether it is in force.
type Layer struct {
	Name  string `json:"name"`
	State string `json:"state"` // "on", or "off: why"
}

// Limit is one resource bound: "memory", in the unit of its name.
type Limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Filter names the seccomp program.
type Filter struct {
	Mode   string `json:"mode"`
	Arch   string `json:"arch"`
	SHA256 string `json:"sha256"`
	// Notify is the digest of the second program, which hands connections to
	// the supervisor; empty where none is loaded.
	Notify string `json:"notify,omitempty"`
}

// Signals declares what a stop delivers.
type Signals struct {
	Stop string `json:"stop"` // term or kill
}
