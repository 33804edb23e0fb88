package guard

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold/policy"
)

// A rule of the model.
type modelRule struct {
	verb verb
	path string
}

// model is "most specific wins" in two sentences: a path can be read if the
// deepest of the deny, write and allow rules on the way to it isn't a deny; it
// can be written if the deepest of the deny, read_only and write rules is a
// write. At equal paths deny comes before read_only before write.
type model struct {
	readBase bool
	rules    []modelRule
}

func (m model) readable(p string) bool {
	v, ok := m.deepest(p, verbDeny, verbWrite, verbAllow)
	if !ok {
		return m.readBase
	}
	return v != verbDeny
}

func (m model) writable(p string) bool {
	v, ok := m.deepest(p, verbDeny, verbReadOnly, verbWrite)
	return ok && v == verbWrite
}

func (m model) deepest(p string, order ...verb) (verb, bool) {
	best, found := modelRule{}, false
	for _, r := range m.rules {
		if !within(p, r.path) || !slices.Contains(order, r.verb) {
			continue
		}
		deeper := len(r.path) > len(best.path)
		same := r.path == best.path && slices.Index(order, r.verb) < slices.Index(order, best.verb)
		if !found || deeper || same {
			best, found = r, true
		}
	}
	return best.verb, found
}

// drawTree draws the paths of a small tree.
func drawTree(t *rapid.T) []string {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "a-", "a.b", "B", "é"}), 1, 3, rapid.ID)
	paths := []string{"/w"}
	for range rapid.IntRange(1, 3).Draw(t, "depth") {
		for _, dir := range slices.Clone(paths) {
			for _, n := range names.Draw(t, "names") {
				if p := join(dir, n); !slices.Contains(paths, p) && len(paths) < 40 {
					paths = append(paths, p)
				}
			}
		}
	}
	return paths
}

func drawRules(t *rapid.T, paths []string) []modelRule {
	var out []modelRule
	for range rapid.IntRange(0, 8).Draw(t, "rules") {
		out = append(out, modelRule{
			verb: rapid.SampledFrom([]verb{verbAllow, verbWrite, verbReadOnly, verbDeny}).Draw(t, "verb"),
			path: rapid.SampledFrom(paths).Draw(t, "path"),
		})
	}
	return out
}

func policyOf(base policy.ReadBase, rules []modelRule) *policy.Policy {
	p := &policy.Policy{Read: policy.Read{Base: base}}
	lists := map[verb]*[]policy.PathRule{
		verbAllow: &p.Read.Allow, verbWrite: &p.Write, verbReadOnly: &p.ReadOnly, verbDeny: &p.Read.Deny,
	}
	for i, r := range rules {
		l := lists[r.verb]
		*l = append(*l, policy.PathRule{Text: r.path, Source: fmt.Sprintf("%s[%d]", r.verb, i)})
	}
	return p
}

func launchFixture(m *memFS, p *policy.Policy) (*Grant, error) {
	p.GuardWorkspace.Off = true
	return newGate(m.fixture(), p, Request{Argv: []string{"true"}, Dir: "/tmp"}, nil).launch(context.Background())
}

// What the Grant says of every path is what the model says, from the lattice
// and from the entries alike, whatever the order of the rules.
func TestMostSpecificWins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paths := drawTree(t)
		rules := drawRules(t, paths)
		base := rapid.SampledFrom([]policy.ReadBase{policy.BaseHost, policy.BaseNone}).Draw(t, "base")
		g, err := launchFixture(newMemFS(paths...), policyOf(base, rules))
		shuffled := rapid.Permutation(rules).Draw(t, "order")
		h, herr := launchFixture(newMemFS(paths...), policyOf(base, shuffled))
		if (err == nil) != (herr == nil) {
			t.Fatalf("the order of the rules decides: %v, %v", err, herr)
		}
		if err != nil {
			checkRefused(t, err, rules)
			return
		}
		m := model{readBase: base == policy.BaseHost, rules: rules}
		for _, p := range paths {
			want := fmt.Sprintf("readable %v writable %v", m.readable(p), m.writable(p))
			if got := fmt.Sprintf("readable %v writable %v", g.lattice.at(p).access.readable(), g.lattice.at(p).access == ReadWrite); got != want {
				t.Fatalf("lattice at %q: %s, want %s", p, got, want)
			}
			r, w := byEntries(g, p)
			if got := fmt.Sprintf("readable %v writable %v", r, w); got != want {
				t.Fatalf("entries at %q: %s, want %s; entries %v", p, got, want, g.Entries())
			}
		}
		checkEntries(t, g)
		if diff := cmp.Diff(accesses(g), accesses(h)); diff != "" {
			t.Fatalf("entries depend on the order of the rules:\n%s", diff)
		}
	})
}

// checkRefused: these rules can only be refused for an allow that the deny at
// its own path makes void.
func checkRefused(t *rapid.T, err error, rules []modelRule) {
	r, ok := err.(*policy.Refusal) //nolint:errorlint // launch returns nothing else
	if !ok || r.Code != "allow_reveals_nothing" {
		t.Fatalf("refused: %v", err)
	}
	for _, a := range rules {
		if a.verb == verbAllow && slices.Contains(rules, modelRule{verbDeny, a.path}) {
			return
		}
	}
	t.Fatalf("refused without a cause: %v", err)
}

// byEntries reads the Grant as a back end does: the nearest entry decides.
func byEntries(g *Grant, p string) (readable, writable bool) {
	e := nearest(g.Entries(), p)
	if e == nil {
		return g.Base() == policy.BaseHost, false
	}
	return e.Access.readable(), e.Access == ReadWrite
}

func accesses(g *Grant) []string {
	var out []string
	for _, e := range g.Entries() {
		out = append(out, fmt.Sprintf("%s %s %v", e.Path, e.Access, e.Passable))
	}
	for _, p := range g.Pins() {
		out = append(out, fmt.Sprintf("pin %s in %s", p.Path, p.Root))
	}
	return out
}

// checkEntries holds what back ends rely on.
func checkEntries(t *rapid.T, g *Grant) {
	for i, e := range g.Entries() {
		if i > 0 && comparePaths(g.Entries()[i-1].Path, e.Path) >= 0 {
			t.Fatalf("entries aren't sorted: %q, %q", g.Entries()[i-1].Path, e.Path)
		}
		up := nearest(g.Entries(), parent(e.Path))
		if up != nil && up.Access == e.Access {
			t.Fatalf("the entry at %q repeats the one at %q", e.Path, up.Path)
		}
		if up == nil || up.Access != ReadWrite || e.Access == ReadWrite {
			continue
		}
		for dir := parent(e.Path); dir != up.Path; dir = parent(dir) {
			if !slices.ContainsFunc(g.Pins(), func(p Pin) bool { return p.Path == dir && p.Root == up.Path }) {
				t.Fatalf("%q above the covered %q isn't pinned", dir, e.Path)
			}
		}
	}
}

func TestComparePathsPutsParentsFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) string {
			p := "/"
			for _, n := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a-b", "a b", "a\x01", "z"}), 0, 4).Draw(t, "names") {
				p = join(p, n)
			}
			return p
		})
		a, b, c := gen.Draw(t, "a"), gen.Draw(t, "b"), gen.Draw(t, "c")
		if beneath(a, b) && comparePaths(b, a) >= 0 {
			t.Fatalf("%q isn't before %q", b, a)
		}
		if (comparePaths(a, b) < 0) != (comparePaths(b, a) > 0) {
			t.Fatalf("%q and %q aren't ordered", a, b)
		}
		if beneath(a, b) && comparePaths(b, c) < 0 && comparePaths(c, a) < 0 && !within(c, b) {
			t.Fatalf("%q stands between %q and %q", c, b, a)
		}
	})
}

// A path that differs from the name on the disk by its case alone is that
// name, where the file system folds case.
func TestFoldedNames(t *testing.T) {
	t.Parallel()
	m := newMemFS("/w/Secret")
	m.fold = true
	g, err := launchFixture(m, policyOf(policy.BaseHost, []modelRule{{verbWrite, "/w"}, {verbDeny, "/w/secret"}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := accesses(g); !slices.Contains(got, "/w/Secret deny false") {
		t.Errorf("entries = %v", got)
	}
	_, err = launchFixture(m, policyOf(policy.BaseHost, []modelRule{{verbAllow, "/w/SECRET"}, {verbDeny, "/w/secret"}}))
	if r, ok := err.(*policy.Refusal); !ok || r.Code != "contradiction" { //nolint:errorlint // launch returns nothing else
		t.Errorf("two cases of one name: %v, want a contradiction", err)
	}
}
