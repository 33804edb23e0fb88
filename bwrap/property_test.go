package bwrap_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
)

// TestNoLaterMountReopensADeny draws rules as the guard could hand them over,
// replays bubblewrap's arguments by the kernel's rule (a mount hides all that
// is beneath it) and compares what each path shows with the nearest rule.
func TestNoLaterMountReopensADeny(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		l, err := bwrap.TranslateInput(in, machine(), options())
		if err != nil {
			t.Fatal(err)
		}
		table := replay(t, l.Args)
		order, err := bwrap.InOrder(l)
		if err != nil {
			t.Fatal(err)
		}
		if got := replay(t, order); !sameMounts(got, table) {
			t.Fatalf("with %q mounted later: %+v, wanted %+v", bwrap.Later(l), got, table)
		}
		for _, e := range in.Entries {
			for _, p := range []string{e.Path, e.Path + "/x", e.Path + "/x/y"} {
				if nearest := nearestRule(in.Entries, p); nearest.Path == e.Path {
					compare(t, in, table, e, p)
				}
			}
		}
	})
}

// sameMounts compares what is mounted where, in whatever order.
func sameMounts(a, b []mounted) bool {
	byPath := func(x, y mounted) int { return strings.Compare(x.path, y.path) }
	slices.SortFunc(a, byPath)
	slices.SortFunc(b, byPath)
	return slices.Equal(a, b)
}

// compare checks one path that a rule decides about.
func compare(t *rapid.T, in bwrap.Input, table []mounted, e guard.Entry, p string) {
	m := shown(table, p)
	onHost := m.kind == "bind" && m.path != "/tmp"
	switch e.Access {
	case guard.ReadWrite:
		if !onHost || !m.writable {
			t.Fatalf("%q is %+v, wanted the host's, writable", p, m)
		}
	case guard.ReadOnly:
		if m.writable || e.Kind != guard.Missing && !onHost {
			t.Fatalf("%q is %+v, wanted the host's, read-only", p, m)
		}
	case guard.Deny, guard.Empty:
		if onHost && (e.Kind != guard.Missing || m.writable) {
			t.Fatalf("%q is %+v, wanted it covered", p, m)
		}
		if m.writable {
			t.Fatalf("%q is %+v, wanted it read-only", p, m)
		}
		if p == e.Path && m.path == p && m.perms != wantedMode(e) {
			t.Fatalf("%q has mode %s, wanted %s", p, m.perms, wantedMode(e))
		}
	}
}

func wantedMode(e guard.Entry) string {
	switch {
	case e.Access == guard.Deny && e.Passable:
		return "0111"
	case e.Access == guard.Deny:
		return "0000"
	case e.Kind == guard.File:
		return "0444"
	}
	return "0555"
}

// mounted is one mount as the arguments leave it.
type mounted struct {
	path, kind, perms string
	writable          bool
}

// replay follows the arguments.
func replay(t *rapid.T, args []string) []mounted {
	var table []mounted
	put := func(m mounted) {
		table = slices.DeleteFunc(table, func(old mounted) bool { return old.path == m.path || bwrap.IsBelow(old.path, m.path) })
		table = append(table, m)
	}
	put(mounted{path: "/", kind: "root", writable: true})
	perms := ""
	for i := 0; i < len(args); i++ {
		switch flag := args[i]; flag {
		case "--perms":
			perms = args[i+1]
			i++
			continue
		case "--bind", "--bind-try", "--ro-bind":
			if args[i+1] != args[i+2] {
				t.Fatalf("%q is bound to %q", args[i+1], args[i+2])
			}
			put(mounted{path: args[i+2], kind: "bind", writable: flag != "--ro-bind"})
			i += 2
		case "--ro-bind-data":
			put(mounted{path: args[i+2], kind: "data", perms: perms})
			i += 2
		case "--tmpfs":
			put(mounted{path: args[i+1], kind: "tmpfs", perms: perms, writable: true})
			i++
		case "--dev", "--proc":
			put(mounted{path: args[i+1], kind: flag, writable: true})
			i++
		case "--remount-ro":
			j := slices.IndexFunc(table, func(m mounted) bool { return m.path == args[i+1] })
			if j < 0 {
				t.Fatalf("%q is made read-only, and nothing is mounted there", args[i+1])
			}
			table[j].writable = false
			i++
		case "--dir", "--seccomp", "--chdir", "--cap-drop":
			i++
		default:
			if !strings.HasPrefix(flag, "--") {
				t.Fatalf("argument %d is %q, wanted a flag", i, flag)
			}
		}
		perms = ""
	}
	return table
}

// shown is the mount that a path lies on.
func shown(table []mounted, p string) mounted {
	var best mounted
	for _, m := range table {
		if (m.path == p || bwrap.IsBelow(p, m.path)) && len(m.path) > len(best.path) {
			best = m
		}
	}
	return best
}

func nearestRule(entries []guard.Entry, p string) guard.Entry {
	var best guard.Entry
	for _, e := range entries {
		if (e.Path == p || bwrap.IsBelow(p, e.Path)) && len(e.Path) > len(best.Path) {
			best = e
		}
	}
	return best
}

// drawInput makes rules that keep what the guard promises: sorted, none twice
// or redundant, nothing beneath a file or a missing path that exists.
func drawInput(t *rapid.T) bwrap.Input {
	in := bwrap.Input{Base: rapid.SampledFrom([]policy.ReadBase{"", policy.BaseHost, policy.BaseSystem, policy.BaseNone}).Draw(t, "base")}
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	tops := rapid.SampledFrom([]string{"/w", "/h", "/tmp", "/var/tmp", "/var", "/dev/shm"})
	paths := map[string]bool{}
	for range rapid.IntRange(1, 12).Draw(t, "rules") {
		p := tops.Draw(t, "top")
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			p += "/" + names.Draw(t, "name")
		}
		if p != "/tmp" && p != "/dev/shm" {
			paths[p] = true
		}
	}
	kinds := map[string]guard.Kind{}
	for _, p := range sortedPaths(paths) {
		if e, ok := drawEntry(t, in, p, kinds); ok {
			in.Entries = append(in.Entries, e)
		}
	}
	for i, e := range in.Entries {
		in.Entries[i].Passable = e.Kind == guard.Dir && e.Access <= guard.Empty && slices.ContainsFunc(in.Entries, func(o guard.Entry) bool {
			return bwrap.IsBelow(o.Path, e.Path) && o.Access >= guard.ReadOnly
		})
	}
	in.Pins = pinsFor(in.Entries, kinds)
	return in
}

func sortedPaths(set map[string]bool) []string {
	var out []string
	for p := range set {
		out = append(out, p)
	}
	slices.SortFunc(out, bwrap.ComparePaths)
	return out
}

func drawEntry(t *rapid.T, in bwrap.Input, p string, kinds map[string]guard.Kind) (guard.Entry, bool) {
	up := nearestRule(in.Entries, path.Dir(p))
	above := up.Access
	kind := rapid.SampledFrom([]guard.Kind{guard.Dir, guard.Dir, guard.Dir, guard.File, guard.Missing}).Draw(t, "kind")
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		switch kinds[d] {
		case guard.Missing + 10:
			kind = guard.Missing
		case guard.File:
			return guard.Entry{}, false
		}
	}
	access := rapid.SampledFrom([]guard.Access{guard.Deny, guard.Empty, guard.ReadOnly, guard.ReadWrite}).Draw(t, "access")
	readable := access >= guard.ReadOnly
	switch {
	case access == above, kind == guard.Missing && above != guard.ReadWrite, kind == guard.Missing && access == guard.ReadWrite:
		return guard.Entry{}, false
	case up.Path == "" && !readable && in.Base != "" && in.Base != policy.BaseHost:
		return guard.Entry{}, false // hidden already
	case above != 0 && above <= guard.Empty && !readable:
		return guard.Entry{}, false
	}
	kinds[p] = kind
	if kind == guard.Missing {
		kinds[p] = guard.Missing + 10 // told apart from a path that no rule is at
	}
	return at(p, access, kind, uint64(len(kinds))), true
}

// pinsFor are the existing directories between a write grant and what is
// covered in it.
func pinsFor(entries []guard.Entry, kinds map[string]guard.Kind) []guard.Pin {
	var pins []guard.Pin
	for _, e := range entries {
		root := nearestRule(entries, path.Dir(e.Path))
		if e.Access == guard.ReadWrite || root.Access != guard.ReadWrite || e.Kind == guard.Missing {
			continue
		}
		for d := path.Dir(e.Path); d != root.Path; d = path.Dir(d) {
			pins = append(pins, guard.Pin{Root: root.Path, Path: d})
		}
	}
	return pins
}
