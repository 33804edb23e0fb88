package cgroup

import (
	"strconv"
	"strings"
)

// Stats reads what the tree has used. A file that a kernel hasn't got leaves
// its field zero.
func (t *Tree) Stats() Stats {
	var s Stats
	if t == nil {
		return s
	}
	for _, q := range t.parts {
		for _, c := range q.controllers {
			t.read(&s, q, c)
		}
		if q.v2 { // there without any controller
			s.CPU = 1000 * t.keyed(q, "cpu.stat", "usage_usec")
		}
	}
	return s
}

func (t *Tree) read(s *Stats, q part, controller string) {
	switch controller {
	case cpu:
		s.Throttled = t.keyed(q, "cpu.stat", "nr_throttled")
	case cpuacct:
		s.CPU = t.number(q, "cpuacct.usage")
	case pids:
		s.PeakPIDs = t.number(q, "pids.peak")
		s.PIDsMax = t.keyed(q, "pids.events", "max")
	case memory:
		peak, events := "memory.max_usage_in_bytes", "memory.oom_control"
		if q.v2 {
			peak, events = "memory.peak", "memory.events"
		}
		s.PeakMemory = t.number(q, peak)
		s.OOMKills = t.keyed(q, events, "oom_kill")
	}
}

func (t *Tree) number(q part, file string) int64 {
	b, err := t.kernel.ReadFile(q.parent + "/" + file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" counts as nothing known
	return n
}

// keyed is one line of a file of "key number" lines.
func (t *Tree) keyed(q part, file, key string) int64 {
	b, err := t.kernel.ReadFile(q.parent + "/" + file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
