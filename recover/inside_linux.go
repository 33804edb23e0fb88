package recover

import (
	"slices"
	"strconv"
	"strings"

	"pinfold/guard"
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
	return p.steps([]step{{ProofMaps, p.proveMaps}, {ProofMounts, p.proveMounts}, {ProofCanaries, func() error { return proveCanaries(p.stored) }}})
}

// lookInside checks one process of the sandbox, pid 1 included.
func (p *prover) lookInside(of *process, status []byte) error {
	got, err := of.namespaces()
	if err != nil {
		return err
	}
	for i, name := range namespaceNames {
		want, recorded := p.stored.Root.Namespaces[name]
		switch {
		case !recorded:
			return refuted(ProofNamespaces, "the record has no %s namespace", name)
		case got[i] == p.hostSpaces[i]:
			return refuted(ProofNamespaces, "process %d is in the caller's own %s namespace", of.pid, name)
		case got[i] != want:
			return refuted(ProofNamespaces, "process %d is in another %s namespace than the recorded one", of.pid, name)
		}
	}
	return p.lookPrivileges(of, status)
}

// capabilitySets are the lines of status, proc_pid_status(5).
var capabilitySets = []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}

func (p *prover) lookPrivileges(of *process, s []byte) error {
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

// proveCanaries: what the plan claims was tried before the command ran, and
// held, by the journal's one line about it: no cover of the plan without a try.
func proveCanaries(stored *plan.Stored) error {
	tried := slices.DeleteFunc(slices.Clone(stored.Steps), func(s plan.Step) bool { return s.Kind != plan.KindCanaries })
	if len(tried) != 1 || tried[0].Action != plan.ActionHeld {
		return refuted(ProofCanaries, "the record has %d lines that say that what the plan claims was tried, not one", len(tried))
	}
	t, err := plan.ParseTried(tried[0].Detail)
	if err != nil {
		return refuted(ProofCanaries, "%v", err)
	}
	covers := 0
	for _, m := range stored.Plan.Mounts {
		if m.Access == guard.Deny.String() || m.Access == guard.Empty.String() {
			covers++
		}
	}
	if paths := t.Denied + t.ReadOnly + t.Writable + t.Left; paths < covers || t.Hosts != 1 || t.Calls == 0 {
		return refuted(ProofCanaries, "%d paths, %d calls and %d hosts were tried, and the plan has %d covers", paths, t.Calls, t.Hosts, covers)
	}
	return nil
}
