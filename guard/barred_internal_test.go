package guard

import (
	"context"
	"testing"

	"pinfold/policy"
)

// barredGrant is what becomes of /w/d/zzz, which isn't there, where this user
// can make nothing in /w/d.
func barredGrant(t *testing.T, edit func(*policy.Policy)) *Grant {
	t.Helper()
	m := newMemFS("/w/d", "/w/own")
	m.closed = map[string]bool{"/w/d": true}
	p := &policy.Policy{Write: []policy.PathRule{{Text: "/w"}}}
	edit(p)
	g, err := newGate(m.fixture(), p, Request{Argv: []string{"true"}, Dir: "/tmp"}, nil).launch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// A missing name that a rule takes away is covered; where this user could not
// make the mount point, and nobody inside the name, it is watched instead.
func TestBarredNamesAreWatched(t *testing.T) {
	t.Parallel()
	readOnly := func(paths ...string) func(*policy.Policy) {
		return func(p *policy.Policy) {
			for _, at := range paths {
				p.ReadOnly = append(p.ReadOnly, policy.PathRule{Text: at})
			}
		}
	}
	for name, c := range map[string]struct {
		edit    func(*policy.Policy)
		watched string
	}{
		"read_only": {edit: readOnly("/w/d/zzz"), watched: "/w/d/zzz"},
		"deeper":    {edit: readOnly("/w/d/a/zzz"), watched: "/w/d/a/zzz"},
		"denied":    {edit: func(p *policy.Policy) { p.Read.Deny = []policy.PathRule{{Text: "/w/d/zzz"}} }, watched: "/w/d/zzz"},
		"control":   {edit: readOnly("/w/own/zzz")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := barredGrant(t, c.edit)
			missing, pinned := 0, false
			for _, e := range g.Entries() {
				if e.Kind == Missing {
					missing++
				}
			}
			for _, p := range g.Pins() {
				pinned = pinned || p.Path == "/w/d" || p.Path == "/w/own"
			}
			if !pinned {
				t.Errorf("the directory could be renamed: %+v", g.Pins())
			}
			if c.watched == "" {
				if missing != 1 || len(g.Watches()) != 0 {
					t.Errorf("entries %+v, watches %+v", g.Entries(), g.Watches())
				}
				return
			}
			if w := g.Watches(); missing != 0 || len(w) != 1 || w[0].Path != c.watched || w[0].Root != "/w" || w[0].Rule.Class != ClassPolicy {
				t.Errorf("entries %+v, watches %+v", g.Entries(), w)
			}
		})
	}
}
