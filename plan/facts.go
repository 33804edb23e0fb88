package plan

import "time"

// Root is what runs: written once the command was started, so that a later
// reader can prove that a live process is the one that was started here.
type Root struct {
	Digest  string    `json:"digest"` // of the plan
	Started time.Time `json:"started"`
	// Pinned is when the plan was written, in clock ticks since boot, as the
	// start times of processes are: nothing of the sandbox is older.
	Pinned uint64 `json:"pinned_ticks"`
	BootID string `json:"boot_id"`
	Owner  int    `json:"uid"`
	// Supervisor is the process that holds the record, and Exe its program.
	Supervisor Process `json:"supervisor"`
	Exe        File    `json:"exe"`
	// Bwrap is bubblewrap on the host's side, Init pid 1 of the sandbox, and
	// Command the command, all with their pids on the host.
	Bwrap   Process `json:"bwrap"`
	Init    Process `json:"init"`
	Command Process `json:"command"`
	// Namespaces are the inodes of the sandbox's, by their name in /proc/PID/ns.
	Namespaces map[string]uint64 `json:"namespaces"`
	UIDMap     string            `json:"uid_map,omitempty"`
	GIDMap     string            `json:"gid_map,omitempty"`
	// Filters are how many seccomp programs each role has: "init", "command".
	Filters  map[string]int `json:"filters,omitempty"`
	Landlock bool           `json:"landlock"`
	// Terminal: Command is the stub, which stays as the session leader of the
	// command's terminal, and the command is its only child.
	Terminal bool `json:"terminal,omitempty"`
	// Mounts is the sandbox's mount table just before the stub compared it
	// with the Grant and let the command go; see [MountTable].
	Mounts []string `json:"mounts,omitempty"`
	// Fresh are the paths that the plan calls by name: "{run}".
	Fresh map[string]string `json:"fresh,omitempty"`
}

// Process is one process: a pid alone may be used again.
type Process struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"` // field 22 of /proc/PID/stat, proc(5)
}

// File names a file system object.
type File struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Exit is how it ended.
type Exit struct {
	Time   time.Time `json:"time"`
	Code   int       `json:"code"`             // pinfold's own exit code
	Reason string    `json:"reason"`           // exited, signaled, timeout, interrupted, boundary_lost, …
	Signal int       `json:"signal,omitempty"` // that ended the command
	Stop   string    `json:"stop,omitempty"`   // what an interrupted run was sent: term or kill
}

// Step is one line of the journal: what was made on the host or taken away
// again, so that whoever comes after a crash can finish the work.
type Step struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"` // made, removed, …
	Kind   string    `json:"kind"`   // mount_point, socket, cgroup, …
	Path   string    `json:"path,omitempty"`
	Detail string    `json:"detail,omitempty"`
}
