package guard_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

func submodule(tr *tree) {
	tr.repo("origin")
	tr.repo("ws")
	tr.git("ws", "submodule", "-q", "add", "file://"+tr.path("origin"), "lib")
}

// Where submodules' git directories lie nothing new can be made, and those
// that are there stay as writable as they were.
func TestModules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		launch launch
		want   []string
	}{
		"guarded": {
			want: []string{
				"read-write ws", "read-only ws/.git/config", "read-only ws/.git/hooks", "read-only ws/.git/info",
				"read-only ws/.git/modules", "read-write ws/.git/modules/lib", "read-only ws/.git/modules/lib/config",
				"read-only ws/.git/modules/lib/hooks", "read-only ws/.git/modules/lib/info", "read-only ws/.gitmodules", "read-only ws/lib/.git",
			},
		},
		"excepted": {
			launch: launch{edit: func(_ *tree, p *policy.Policy, _ *guard.Request) {
				p.GuardWorkspace.Except = []string{".git/modules"}
			}},
			want: []string{
				"read-write ws", "read-only ws/.git/config", "read-only ws/.git/hooks", "read-only ws/.git/info",
				"read-only ws/.gitmodules", "read-only ws/lib/.git",
			},
		},
		"read-only by the policy": {
			launch: launch{readOnly: []string{"ws/.git"}},
			want:   []string{"read-write ws", "read-only ws/.git", "read-only ws/.gitmodules", "read-only ws/lib/.git"},
		},
		"granted by the policy": {
			launch: launch{write: []string{"ws/.git/modules/lib"}},
			want: []string{
				"read-write ws", "read-only ws/.git/config", "read-only ws/.git/hooks", "read-only ws/.git/info",
				"read-only ws/.git/modules", "read-write ws/.git/modules/lib", "read-only ws/.git/modules/lib/config",
				"read-only ws/.git/modules/lib/hooks", "read-only ws/.git/modules/lib/info", "read-only ws/.gitmodules", "read-only ws/lib/.git",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			submodule(tr)
			c.launch.write = append(c.launch.write, "{workspace}")
			if diff := cmp.Diff(c.want, show(tr, c.launch.grant(tr))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// New worktrees are looked into; those that were there are guarded by name.
func TestWorktreesWatched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		edit    func(*tree, *policy.Policy, *guard.Request)
		known   []string
		watched bool
	}{
		"none": {prepare: func(tr *tree) { tr.repo("ws") }, watched: true},
		"one":  {prepare: func(tr *tree) { tr.repo("ws"); tr.git("ws", "worktree", "add", "-q", "../other") }, known: []string{"other"}, watched: true},
		"excepted": {prepare: func(tr *tree) { tr.repo("ws") }, edit: func(_ *tree, p *policy.Policy, _ *guard.Request) {
			p.GuardWorkspace.Except = []string{".git/worktrees"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			watches := launch{write: []string{"{workspace}"}, edit: c.edit}.grant(tr).Watches()
			i := slices.IndexFunc(watches, func(w guard.Watch) bool { return w.Worktrees })
			if i < 0 || !c.watched {
				if c.watched || i >= 0 {
					t.Fatalf("watched: %+v", watches)
				}
				return
			}
			w := watches[i]
			if w.Path != tr.path("ws/.git/worktrees") || w.Root != tr.path("ws") || w.Rule.Text != ".git/worktrees" || !slices.Equal(w.Known, c.known) {
				t.Errorf("got %+v", w)
			}
		})
	}
}
