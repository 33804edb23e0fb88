package recover

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"pinfold/plan"
)

// proveInside proves namespaces, privileges, maps and mounts for the whole
// tree. All are read for each process at one look, but the verdict names them
// in order.
func (p *prover) proveInside() error {
	if err := p.tree.settle(p.ctx, p.bwrap, p.lookInside); err != nil {
		return err
	}
	p.verdict.Processes = len(p.tree.all)
	p.verdict.Held = append(p.verdict.Held, ProofNamespaces, ProofPrivileges)
	return p.steps([]step{{ProofMaps, p.proveMaps}, {ProofMounts, p.proveMounts}})
}

// lookInside checks one process of the sandbox, pid 1 included.
func (p *prover) lookInside(of *process) error {
	got, err := of.namespaces()
	if err != nil {
		return err
	}
	for _, name := range namespaceNames {
		want, recorded := p.stored.Root.Namespaces[name]
		switch {
		case !recorded:
			return refuted(ProofNamespaces, "the record has no %s namespace", name)
		case got[name] == p.hostSpaces[name]:
			return refuted(ProofNamespaces, "process %d is in the caller's own %s namespace", of.pid, name)
		case got[name] != want:
			return refuted(ProofNamespaces, "process %d is in another %s namespace than the recorded one", of.pid, name)
		}
	}
	return p.lookPrivileges(of)
}

// capabilitySets are the lines of status, proc_pid_status(5).
var capabilitySets = []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}

func (p *prover) lookPrivileges(of *process) error {
	b, err := of.read("status")
	if err != nil {
		return err
	}
	s := string(b)
	for _, set := range capabilitySets {
		if v := field(s, set); strings.Trim(v, "0") != "" || v == "" {
			return refuted(ProofPrivileges, "process %d has capabilities (%s %s)", of.pid, set, v)
		}
	}
	if v := field(s, "NoNewPrivs"); v != "1" {
		return refuted(ProofPrivileges, "process %d may gain privileges (NoNewPrivs %s)", of.pid, v)
	}
	if v := field(s, "Seccomp"); v != "2" {
		return refuted(ProofPrivileges, "process %d has no seccomp filter (Seccomp %s)", of.pid, v)
	}
	return p.lookFilters(of, field(s, "Seccomp_filters"))
}

// lookFilters: pid 1 has its own count; the command and its descendants have
// at least the command's, since a program may add filters of its own but
// never lose one. Kernels before 5.9 don't count.
func (p *prover) lookFilters(of *process, text string) error {
	if text == "" && len(p.stored.Root.Filters) == 0 {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return refuted(ProofPrivileges, "process %d tells no number of seccomp filters", of.pid)
	}
	role, exact := "command", false
	if of.pid == p.init.pid {
		role, exact = "init", true
	}
	want, recorded := p.stored.Root.Filters[role]
	if !recorded || n < want || exact && n != want {
		return refuted(ProofPrivileges, "process %d has %d seccomp filters, not %d as its role (%s)", of.pid, n, want, role)
	}
	return nil
}

func (p *prover) proveMaps() error {
	for name, want := range map[string]string{"uid_map": p.stored.Root.UIDMap, "gid_map": p.stored.Root.GIDMap} {
		b, err := p.init.read(name)
		if err != nil {
			return err
		}
		var lines []string
		for line := range strings.Lines(string(b)) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if got := strings.Join(lines, ","); got != want {
			return refuted(ProofMaps, "the %s of the sandbox is %q, not %q as recorded", name, got, want)
		}
	}
	return nil
}

// proveMounts compares the live table with the recorded one, and the plan's
// own mounts with both: a cover that fell off and a mount that came later
// each show as a line.
func (p *prover) proveMounts() error {
	f, err := os.Open(p.init.path("mountinfo"))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	now, err := plan.MountTable(f)
	if err != nil {
		return err
	}
	if len(p.stored.Root.Mounts) == 0 {
		return refuted(ProofMounts, "the record has no mount table")
	}
	live, recorded, err := p.lessMended(now)
	if err != nil {
		return err
	}
	for _, line := range live {
		if !slices.Contains(recorded, line) {
			return refuted(ProofMounts, "mounted since, or changed: %s", line)
		}
	}
	for _, line := range recorded {
		if !slices.Contains(live, line) {
			return refuted(ProofMounts, "no longer mounted: %s", line)
		}
	}
	if !slices.Equal(live, recorded) {
		return refuted(ProofMounts, "the mounts are in another order than recorded")
	}
	return p.planMounted(now)
}

// planMounted: each place of the plan is one of the table.
func (p *prover) planMounted(now []string) error {
	for _, m := range p.stored.Plan.Mounts {
		if m.Access == "pin" || m.Kind == "symlink" || m.Kind == "dir" {
			continue // buried on purpose, or no mount
		}
		at := m.Path
		for name, path := range p.stored.Root.Fresh {
			at = strings.ReplaceAll(at, name, path)
		}
		prefix := strconv.Quote(at) + " "
		if !slices.ContainsFunc(now, func(line string) bool { return strings.HasPrefix(line, prefix) }) {
			return refuted(ProofMounts, "the plan mounts %q (%s), and nothing is mounted there", at, m.Access)
		}
	}
	return nil
}

// lessMended leaves out of both tables the places that the supervisor has
// covered anew, by its journal, after the host had moved what was covered. All
// that must hold there is that the mount on top is read-only.
func (p *prover) lessMended(now []string) (live, recorded []string, err error) {
	mended := map[string]bool{}
	for _, s := range p.stored.Steps {
		if s.Action == "mended" && s.Kind == "mount" {
			mended[strconv.Quote(s.Path)] = true
		}
	}
	top := map[string]string{} // of those places
	for _, line := range now {
		if at := placeOf(line); mended[at] {
			top[at] = line
			continue
		}
		live = append(live, line)
	}
	for at := range mended {
		flags := top[at][strings.LastIndexByte(top[at], ' ')+1:]
		if !slices.Contains(strings.Split(flags, ","), "ro") {
			return nil, nil, refuted(ProofMounts, "covered anew, and now it isn't: %s %s", at, flags)
		}
	}
	for _, line := range p.stored.Root.Mounts {
		if !mended[placeOf(line)] {
			recorded = append(recorded, line)
		}
	}
	return live, recorded, nil
}

// placeOf is the mount point that a line of a table begins with, quoted.
func placeOf(line string) string {
	at, err := strconv.QuotedPrefix(line)
	if err != nil {
		return ""
	}
	return at
}
