package guard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		want    []string
	}{
		"nothing granted": {want: nil},
		"write": {
			launch: launch{write: []string{"{workspace}"}},
			want:   []string{"read-write ws"},
		},
		"a write beneath a write is redundant": {
			prepare: func(tr *tree) { tr.dirs("ws/a") },
			launch:  launch{write: []string{"ws/a", "{workspace}"}},
			want:    []string{"read-write ws"},
		},
		"an allow beneath a write is redundant": {
			prepare: func(tr *tree) { tr.dirs("ws/a") },
			launch:  launch{write: []string{"{workspace}"}, allow: []string{"ws/a"}},
			want:    []string{"read-write ws"},
		},
		"read_only in a write": {
			prepare: func(tr *tree) { tr.dirs("ws/vendor/x") },
			launch:  launch{write: []string{"{workspace}", "ws/vendor/x"}, readOnly: []string{"ws/vendor"}},
			want:    []string{"read-write ws", "read-only ws/vendor", "read-write ws/vendor/x"},
		},
		"deny in a write, with an exception": {
			prepare: func(tr *tree) { tr.files("ws/s/key", "ws/s/pub", "ws/s-other") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/s"}, allow: []string{"ws/s/pub"}},
			want:    []string{"read-write ws", "deny passable ws/s", "read-only ws/s/pub"},
		},
		"deny beneath a deny is redundant": {
			prepare: func(tr *tree) { tr.files("s/key", "s/sub/key") },
			launch:  launch{deny: []string{"s/key", "s", "s/sub"}},
			want:    []string{"deny s"},
		},
		"an empty look": {
			prepare: func(tr *tree) { tr.files("s/key") },
			launch:  launch{empty: []string{"s"}},
			want:    []string{"empty s"},
		},
		"error beats empty at one path": {
			prepare: func(tr *tree) { tr.files("s/key") },
			launch:  launch{empty: []string{"s"}, deny: []string{"s"}},
			want:    []string{"deny s"},
		},
		"deny beats write at one path": {
			prepare: func(tr *tree) { tr.dirs("ws/a") },
			launch:  launch{write: []string{"{workspace}", "ws/a"}, deny: []string{"ws/a"}},
			want:    []string{"read-write ws", "deny ws/a"},
		},
		"read_only beats write at one path": {
			prepare: func(tr *tree) { tr.dirs("ws/a") },
			launch:  launch{write: []string{"{workspace}", "ws/a"}, readOnly: []string{"ws/a"}},
			want:    []string{"read-write ws", "read-only ws/a"},
		},
		"read_only never grants": {
			prepare: func(tr *tree) { tr.files("s/key") },
			launch:  launch{deny: []string{"s"}, readOnly: []string{"s/key"}},
			want:    []string{"deny s"},
		},
		"missing denies": {
			launch: launch{write: []string{"{workspace}"}, deny: []string{"ws/no", "nowhere/no"}, readOnly: []string{"ws/ro"}},
			want:   []string{"read-write ws", "deny missing ws/no", "read-only missing ws/ro"},
		},
		"missing optional rules say nothing": {
			launch: launch{write: []string{"?nowhere"}, allow: []string{"nowhere", "?elsewhere"}, deny: []string{"?ws/no"}},
			want:   nil,
		},
		"default denies look empty": {
			prepare: func(tr *tree) {
				tr.files("home/.ssh/id", "home/.netrc", "home/.docker/config.json", "home/.config/gh/hosts.yml", "home/.config/app")
			},
			want: []string{"empty home/.config/gh", "empty home/.docker/config.json", "empty home/.netrc", "empty home/.ssh"},
		},
		"a default deny lifted by name": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id", "home/.netrc") },
			launch:  launch{allow: []string{"~/.ssh"}},
			want:    []string{"empty home/.netrc"},
		},
		"a path beneath a default deny is an exception for itself": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id", "home/.ssh/known_hosts") },
			launch:  launch{allow: []string{"~/.ssh/known_hosts"}},
			want:    []string{"empty passable home/.ssh", "read-only home/.ssh/known_hosts"},
		},
		"a broader allow lifts no default": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{allow: []string{"~"}},
			want:    []string{"empty home/.ssh"},
		},
		"a policy's deny at a default answers an error": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{deny: []string{"~/.ssh"}},
			want:    []string{"deny home/.ssh"},
		},
		"base none": {
			prepare: func(tr *tree) { tr.files("a/f", "a/s/key", "home/.ssh/id") },
			launch:  launch{base: policy.BaseNone, allow: []string{"a", "{workspace}"}, deny: []string{"a/s", "b"}},
			want:    []string{"read-only a", "deny a/s", "read-only ws"},
		},
		"the protected set, and the workspace in it": {
			prepare: func(tr *tree) { tr.dirs("state/ws") },
			launch: launch{
				write: []string{"{workspace}"}, protect: []string{"state"},
				edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Workspace = tr.path("state/ws") },
			},
			want: []string{"deny passable state", "read-write state/ws"},
		},
		"the run directory is always writable": {
			prepare: func(tr *tree) { tr.dirs("state/run/1") },
			launch: launch{edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.State, r.RunDir, r.RunsDir = tr.path("state"), tr.path("state/run/1"), tr.path("state/run")
			}},
			want: []string{"deny passable state", "read-write state/run/1"},
		},
		"shared paths are readable only": {
			prepare: func(tr *tree) { tr.files("state/pub/f") },
			launch: launch{edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.State, r.Share = tr.path("state"), []string{tr.path("state/pub")}
			}},
			want: []string{"deny passable state", "read-only state/pub"},
		},
		"a protected path in a write grant": {
			prepare: func(tr *tree) { tr.files("ws/p/f") },
			launch:  launch{write: []string{"{workspace}"}, protect: []string{"ws/p"}},
			want:    []string{"read-write ws", "deny ws/p"},
		},
		"the policy file in a write grant": {
			prepare: func(tr *tree) { tr.files("ws/.pinfold.json", "ws/base.json") },
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, r *guard.Request) {
				r.PolicyFile = tr.path("ws/.pinfold.json")
				p.Sources = []policy.Source{{File: tr.path("ws/.pinfold.json")}, {File: tr.path("ws/base.json")}}
			}},
			want: []string{"read-write ws", "read-only ws/.pinfold.json", "read-only ws/base.json"},
		},
		"settings that are links into a write grant": {
			prepare: func(tr *tree) {
				tr.files("ws/dot/config.json", "ws/dot/f", "set/f")
				tr.link("../ws/dot/config.json", "set/config.json")
			},
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Settings, r.SettingsFiles = []string{tr.path("set")}, []string{tr.path("set/config.json")}
			}},
			want: []string{"read-write ws", "read-only ws/dot/config.json"},
		},
		"settings that link to what isn't there, and can't be made": {
			prepare: func(tr *tree) { tr.link("../no", "set/config.json") },
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Settings, r.SettingsFiles = []string{tr.path("set")}, []string{tr.path("set/config.json")}
			}},
			want: []string{"read-write ws"},
		},
		"what the next launch uses": {
			prepare: func(tr *tree) { tr.files("ws/ci/Dockerfile", "ws/bin/pinfold", "ws/bin/x", "proxy") },
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Kept = []guard.Kept{
					{Path: tr.path("ws/bin/pinfold"), Name: "pinfold", Kind: guard.File},
					{Path: tr.path("ws/ci"), Name: "context", Kind: guard.Dir},
					{Path: tr.path("proxy"), Name: "network.upstream", Kind: guard.File},
				}
			}},
			want: []string{"read-write ws", "read-only ws/bin/pinfold", "read-only ws/ci"},
		},
		"a grant in a directory that the next launch uses, of which that is left out": {
			prepare: func(tr *tree) { tr.files("ws/ci/Dockerfile", "ws/ci/out/x") },
			launch: launch{write: []string{"{workspace}", "ws/ci/out"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Kept = []guard.Kept{{Path: tr.path("ws/ci"), Name: "context", Kind: guard.Dir, LeftOut: func(path string) (bool, error) { return path == "out", nil }}}
			}},
			want: []string{"read-write ws", "read-only ws/ci", "read-write ws/ci/out"},
		},
		"a deny through a link denies what it leads to": {
			prepare: func(tr *tree) { tr.files("dot/ssh/id"); tr.link("../dot/ssh", "home/.ssh") },
			want:    []string{"empty dot/ssh"},
		},
		"guarded names that exist": {
			prepare: func(tr *tree) { tr.files("ws/.envrc", "ws/.claude/settings.json", "ws/.claude/other") },
			launch:  launch{write: []string{"{workspace}"}},
			want:    []string{"read-write ws", "read-only ws/.claude/settings.json", "read-only ws/.envrc"},
		},
		"guarded names excepted": {
			prepare: func(tr *tree) { tr.files("ws/.envrc", "ws/.claude/settings.json") },
			launch: launch{write: []string{"{workspace}"}, edit: func(_ *tree, p *policy.Policy, _ *guard.Request) {
				p.GuardWorkspace.Except = []string{".claude"}
			}},
			want: []string{"read-write ws", "read-only ws/.envrc"},
		},
		"a directory of start-up files granted": {
			prepare: func(tr *tree) { tr.files("home/.config/git/config", "home/.config/nvim/init.lua") },
			launch:  launch{write: []string{"~/.config"}},
			want:    []string{"read-write home/.config", "read-only home/.config/git"},
		},
		"an agent's directory granted": {
			prepare: func(tr *tree) {
				tr.files("home/.claude/settings.json", "home/.claude/hooks/x", "home/.claude/projects/y")
			},
			launch: launch{write: []string{"~/.claude"}},
			want:   []string{"read-write home/.claude", "read-only home/.claude/hooks", "read-only home/.claude/settings.json"},
		},
		"a repository of dotfiles granted": {
			prepare: func(tr *tree) { tr.files("home/dot/bashrc", "home/dot/x"); tr.link("dot/bashrc", "home/.bashrc") },
			launch:  launch{write: []string{"~/dot"}},
			want:    []string{"read-write home/dot", "read-only home/dot/bashrc"},
		},
		"a home granted": {
			prepare: func(tr *tree) { tr.files("home/.bashrc", "home/.ssh/id", "home/.claude/settings.json", "home/f") },
			launch:  launch{write: []string{"~"}},
			want: []string{
				"read-write home", "read-only home/.bashrc", "read-only home/.claude/settings.json", "empty home/.ssh",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			if c.prepare != nil {
				c.prepare(tr)
			}
			if diff := cmp.Diff(c.want, show(tr, c.launch.grant(tr))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmptyJSONHoldsAnObject(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("home/.docker/config.json", "home/.netrc")
	got := map[string]string{}
	for _, e := range (launch{}).grant(tr).Entries() {
		if strings.HasPrefix(e.Path, tr.root) {
			got[filepath.Base(e.Path)] = string(e.Content)
		}
	}
	if diff := cmp.Diff(map[string]string{"config.json": "{}\n", ".netrc": ""}, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("ws/a/b/secret", "ws/a/c/d/ro", "ws/x/y/s/key", "ws/x/y/s/in/ok")
	l := launch{
		write: []string{"{workspace}", "ws/x/y/s/in"}, deny: []string{"ws/a/b/secret", "ws/x/y/s", "ws/q/r"}, readOnly: []string{"ws/a/c/d/ro"},
	}
	g := l.grant(tr)
	var got []string
	for _, p := range g.Pins() {
		got = append(got, strings.TrimPrefix(p.Path, tr.root+"/")+" in "+filepath.Base(p.Root))
		info, err := os.Lstat(p.Path)
		if err != nil || !info.IsDir() {
			t.Errorf("pin %q: %v, %v", p.Path, info, err)
		}
	}
	want := []string{"ws/a in ws", "ws/a/b in ws", "ws/a/c in ws", "ws/a/c/d in ws", "ws/x in ws", "ws/x/y in ws"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
}

func TestWatches(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("ws/.vscode/settings.json")
	got := map[string]guard.Kind{}
	for _, w := range (launch{write: []string{"{workspace}"}}).grant(tr).Watches() {
		got[strings.TrimPrefix(w.Path, tr.root+"/")] = w.Kind
		if w.Root != tr.root+"/ws" {
			t.Errorf("%s is said to lie in the grant %q", w.Path, w.Root)
		}
	}
	if _, ok := got["ws/.vscode"]; ok {
		t.Error("an existing name is watched, not covered")
	}
	if got["ws/.idea"] != guard.Dir || got["ws/.mcp.json"] != guard.File || got["ws/.claude/hooks"] != guard.Dir {
		t.Errorf("watches = %v", got)
	}
}
