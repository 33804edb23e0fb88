package cgroup

import (
	"fmt"

	"pinfold/policy"
)

// Limits bound a tree of processes. Zero is none.
type Limits struct {
	CPUs   float64 // processors' worth of time
	Memory int64   // bytes, swap included
	PIDs   int64   // processes and threads
}

// Any reports whether there is a limit at all.
func (l Limits) Any() bool { return l != Limits{} }

// Options say where to make a cgroup. The zero value is for a program.
type Options struct {
	// Path is the cgroup to make one in: a directory of the cgroup file
	// system, or a name in every hierarchy ("/ci").
	Path string
	// All wants every controller, whatever the limits.
	All bool
	// Kernel is nil but in tests.
	Kernel Kernel
	// Manager starts a scope of systemd's; nil is systemd itself.
	Manager Manager
}

// Kernel is what the files of the kernel are reached by.
type Kernel interface {
	ReadFile(name string) ([]byte, error)
	// WriteFile writes an existing file in one write(2).
	WriteFile(name, text string) error
	Mkdir(name string) error
	Remove(name string) error
	// List names the directories in one, as far as it can be listed.
	List(dir string) []string
	// Writable reports whether the caller may make directories in one.
	Writable(dir string) bool
}

// Controller names, as the kernel has them.
const (
	cpu     = "cpu"
	memory  = "memory"
	pids    = "pids"
	cpuacct = "cpuacct"
	freezer = "freezer"
)

// needs are the controllers that the limits can't do without, with the name
// of the limit.
func (l Limits) needs(all bool) map[string]string {
	n := map[string]string{}
	if l.CPUs != 0 || all {
		n[cpu] = "limits.cpus"
	}
	if l.Memory != 0 || all {
		n[memory] = "limits.memory"
	}
	if l.PIDs != 0 || all {
		n[pids] = "limits.pids"
	}
	return n
}

// The cures, in the words of pinfold doctor.
const (
	fixDelegate = "run it as root or in a session of systemd's, or inside a cgroup that is delegated to you and named with --cgroup PATH"
	fixUnified  = "boot with systemd.unified_cgroup_hierarchy=1, run it as root, or name a cgroup that you may write with --cgroup PATH"
)

// unavailable is a limit that can't be enforced here.
func unavailable(limit, why, fix string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "limit_unavailable", Subject: limit, Rule: limit,
		Why: fmt.Sprintf("cannot enforce %s: %s", limit, why), Fix: fix,
	}
}

// Stats is what a tree has used so far.
type Stats struct {
	CPU        int64 // nanoseconds
	PeakMemory int64 // bytes; 0 where the kernel doesn't say
	PeakPIDs   int64
	OOMKills   int64 // processes killed because memory ran out
	PIDsMax    int64 // forks refused
	Throttled  int64 // periods cut short
}
