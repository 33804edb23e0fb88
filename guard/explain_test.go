package guard_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("ws/a", "ws/s/key", "ws/s/pub", "ws/.envrc", "home/.ssh/id", "state/token")
	tr.link("/root/ws/s/key", "home/key")
	tr.dirs("ws/ro")
	g := launch{
		write: []string{"{workspace}"}, deny: []string{"ws/s", "ws/no"}, allow: []string{"ws/s/pub"},
		readOnly: []string{"ws/ro"}, protect: []string{"state"},
	}.grant(tr)
	for p, want := range map[string]string{
		"ws/a":           "read-write readable writable by write[0]",
		"ws/new":         "read-write readable writable by write[0]",
		"ws/s/key":       "deny by read.deny[0]",
		"home/key":       "deny by read.deny[0] link home/key",
		"ws/s/pub":       "read-only readable by read.allow[0]",
		"ws/ro/f":        "read-only readable by read_only[0]",
		"ws/no":          "deny covered by read.deny[1]",
		"ws/.envrc":      "read-only readable by guard_workspace",
		"ws/.vscode/x":   "read-only readable watched by guard_workspace",
		"home/.ssh/id":   "empty by default denies",
		"state/token":    "deny by --protect",
		"/usr":           "read-only readable by read.base",
		"/tmp":           "private readable writable by the launch's own",
		"/tmp/something": "private by the launch's own",
	} {
		e, err := g.Explain(tr.path(p))
		if err != nil {
			t.Errorf("Explain(%q): %v", p, err)
			continue
		}
		got := e.Looks
		for word, holds := range map[string]bool{" readable": e.Readable} {
			if holds {
				got += word
			}
		}
		if e.Writable {
			got += " writable"
		}
		if e.Covered {
			got += " covered"
		}
		if e.Watched {
			got += " watched"
		}
		got += " by " + e.Rule.Source
		for _, l := range e.Links {
			got += " link " + strings.TrimPrefix(l, tr.root+"/")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Explain(%q) (-want +got):\n%s", p, diff)
		}
	}
	if _, err := g.Explain("relative"); err == nil {
		t.Error("Explain takes a relative path")
	}
}

func TestExplainBaseNone(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("a/f", "b/f")
	g := launch{base: policy.BaseNone, allow: []string{"a", "ws"}}.grant(tr)
	e, err := g.Explain(tr.path("b/f"))
	if err != nil || e.Looks != "hidden" || e.Readable {
		t.Errorf("Explain = %+v, %v; want hidden", e, err)
	}
}
