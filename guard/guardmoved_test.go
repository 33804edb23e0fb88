package guard_test

import (
	"slices"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// The names of ~/.config are guarded at $XDG_CONFIG_HOME, and so are the
// start-up files that variables name, where a grant holds them.
func TestGuardedByVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env    []string // "{}" is the tree's root
		except string
		edit   func(*tree, *policy.Policy, *guard.Request)
		want   []string // besides what is guarded anyway
		watch  string
	}{
		"none": {},
		"XDG_CONFIG_HOME": {
			env:   []string{"XDG_CONFIG_HOME={}/home/cfg"},
			want:  []string{"home/cfg/fish", "home/cfg/git", "home/cfg/opencode/opencode.json", "home/cfg/systemd"},
			watch: "home/cfg/direnv",
		},
		"an exception for the usual place": {
			env: []string{"XDG_CONFIG_HOME={}/home/cfg"}, except: "~/.config/git",
			want: []string{"home/cfg/fish", "home/cfg/opencode/opencode.json", "home/cfg/systemd"},
		},
		"an exception for the place": {
			env: []string{"XDG_CONFIG_HOME={}/home/cfg"}, except: "~/cfg/git",
			want: []string{"home/cfg/fish", "home/cfg/opencode/opencode.json", "home/cfg/systemd"},
		},
		"a relative one":      {env: []string{"XDG_CONFIG_HOME=cfg"}},
		"the usual one":       {env: []string{"XDG_CONFIG_HOME={}/home/.config"}},
		"the kernel's":        {env: []string{"XDG_CONFIG_HOME=/dev", "BASH_ENV=/dev/null"}},
		"in the run":          {env: []string{"XDG_CONFIG_HOME={}/home/run"}},
		"ZDOTDIR":             {env: []string{"ZDOTDIR={}/home/zsh"}, want: []string{"home/zsh/.zshrc"}, watch: "home/zsh/.zshenv"},
		"ZDOTDIR at home":     {env: []string{"ZDOTDIR={}/home"}, except: "~/.zshrc"},
		"ZDOTDIR, excepted":   {env: []string{"ZDOTDIR={}/home/zsh"}, except: "~/zsh/.zshrc", watch: "home/zsh/.zshenv"},
		"BASH_ENV":            {env: []string{"BASH_ENV={}/home/dot/a"}, want: []string{"home/dot/a"}},
		"ENV":                 {env: []string{"ENV={}/home/dot/a"}, want: []string{"home/dot/a"}},
		"ENV of another kind": {env: []string{"ENV=production"}},
		"ENV, a directory":    {env: []string{"ENV={}/home/dot"}},
		"INPUTRC":             {env: []string{"INPUTRC={}/home/dot/a"}, want: []string{"home/dot/a"}},
		"PYTHONSTARTUP":       {env: []string{"PYTHONSTARTUP={}/home/dot/a"}, want: []string{"home/dot/a"}},
		"missing":             {env: []string{"PYTHONSTARTUP={}/home/dot/none"}, watch: "home/dot/none"},
		"GIT_CONFIG_GLOBAL":   {env: []string{"GIT_CONFIG_GLOBAL={}/home/dot/a"}, want: []string{"home/dot/a"}},
		"a relative file":     {env: []string{"GIT_CONFIG_SYSTEM=dot/a"}, want: []string{"home/dot/a"}},
		"a file elsewhere":    {env: []string{"BASH_ENV={}/other/a"}},
		"a name that is none": {env: []string{"BASH_ENV={}/home/" + strings.Repeat("n", 300)}},
		"of the command": {edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
			p.Env.Set = map[string]string{"BASH_ENV": tr.path("home/dot/a")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files("home/cfg/fish/config.fish", "home/cfg/git/config", "home/cfg/systemd/user/x", "home/cfg/opencode/opencode.json",
				"home/run/git/config", "home/zsh/.zshrc", "home/.zshrc", "home/dot/a", "home/.config/git/config", "other/a")
			g := launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, r *guard.Request) {
				for _, e := range c.env {
					r.Env = append(r.Env, strings.ReplaceAll(e, "{}", tr.root))
				}
				r.Workspace, r.CallerDir, r.RunDir = tr.path("home"), tr.path("home"), tr.path("home/run")
				p.GuardWorkspace.Except = strings.Fields(c.except)
				if c.edit != nil {
					c.edit(tr, p, r)
				}
			}}.grant(tr)
			want := []string{"read-write home"}
			for _, p := range append([]string{"home/.zshrc", "home/.config/git"}, c.want...) {
				if strings.TrimPrefix(c.except, "~/") != strings.TrimPrefix(p, "home/") {
					want = append(want, "read-only "+p)
				}
			}
			got := slices.DeleteFunc(show(tr, g), func(s string) bool { return s == "read-write home/run" })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("got %q\nwant %q", got, want)
			}
			if c.watch != "" && !slices.ContainsFunc(g.Watches(), func(w guard.Watch) bool { return w.Path == tr.path(c.watch) }) {
				t.Errorf("%s isn't watched", c.watch)
			}
		})
	}
}

// A grant at a file that a variable names is refused, and so is one in a
// directory of $XDG_CONFIG_HOME.
func TestGrantsAtVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ env, at string }{
		"a file":      {"BASH_ENV={}/dot/a", "dot/a"},
		"in ~/.zsh":   {"ZDOTDIR={}/home/zsh", "home/zsh/.zshrc"},
		"a directory": {"XDG_CONFIG_HOME={}/home/cfg", "home/cfg/systemd/user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files("dot/a", "home/zsh/.zshrc", "home/cfg/systemd/user/x")
			refusedUntilExcepted(tr, launch{write: []string{c.at}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Env = append(r.Env, strings.ReplaceAll(c.env, "{}", tr.root))
			}}, c.at)
		})
	}
}
