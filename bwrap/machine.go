package bwrap

import (
	"context"

	"pinfold/plan"
)

// Probe learns what a translation needs of this machine. What it can't find
// out is an error: nothing is assumed.
func Probe(ctx context.Context, tool plan.Tool) (Machine, error) {
	v, err := parseVersion(tool.Version)
	if err != nil {
		return Machine{}, err
	}
	return probe(ctx, Machine{Bwrap: tool, Version: v})
}

// procMask is an entry of /proc that tells or does too much. Those for root
// alone are closed to everybody else by their mode.
type procMask struct {
	name string
	root bool
}

// procMasks is what is hidden where it exists: the key rings of other
// sessions, memory, and what acts on or tells about the whole machine.
var procMasks = []procMask{
	{"key-users", false},
	{"keys", false},
	{"kcore", false},
	{"sysrq-trigger", false},
	{"timer_list", false},
	{"acpi", true},
	{"kmsg", true},
	{"kpagecgroup", true},
	{"kpagecount", true},
	{"kpageflags", true},
	{"latency_stats", true},
	{"sched_debug", true},
	{"scsi", true},
	{"timer_stats", true},
	{"vmallocinfo", true},
}
