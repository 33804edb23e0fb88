package guard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offered, add []string
		env          policy.Env
		tier         policy.Tier
		write        []string
		want         []string // besides HOME, PWD and TMPDIR
		tmp          string
		withheld     []string
	}{
		"passed on": {
			offered: []string{"A=1", "B=x=y", "EMPTY=", "LANG=C"},
			want:    []string{"A=1", "B=x=y", "EMPTY=", "LANG=C"},
		},
		"credentials are withheld": {
			offered:  []string{"A=1", "GITHUB_TOKEN=s", "OPENAI_API_KEY=s", "AWS_PROFILE=s", "DB_PASSWORD=s"},
			want:     []string{"A=1"},
			withheld: []string{"AWS_PROFILE", "DB_PASSWORD", "GITHUB_TOKEN", "OPENAI_API_KEY"},
		},
		"secrets are passed on": {
			offered:  []string{"GITHUB_TOKEN=s", "NPM_TOKEN=t"},
			env:      policy.Env{Secrets: []string{"GITHUB_TOKEN", "UNSET_TOKEN"}},
			want:     []string{"GITHUB_TOKEN=s"},
			withheld: []string{"NPM_TOKEN"},
		},
		"dropped": {
			offered: []string{"FOO_A=1", "FOO_B=2", "FOOD=3"},
			env:     policy.Env{Drop: []string{"FOO_*"}},
			want:    []string{"FOOD=3"},
		},
		"a dropped secret isn't announced": {
			offered: []string{"X_TOKEN=1"}, env: policy.Env{Drop: []string{"X_*"}, Secrets: []string{"X_TOKEN"}},
		},
		"set, and --env on top": {
			offered: []string{"A=1", "B=1", "C=1", "N_TOKEN=t"},
			env:     policy.Env{Set: map[string]string{"B": "2", "C": "2"}},
			add:     []string{"C=3", "D=4", "N_TOKEN"},
			want:    []string{"A=1", "B=2", "C=3", "D=4", "N_TOKEN=t"},
		},
		"of two the last":              {offered: []string{"A=1", "A=2"}, want: []string{"A=2"}},
		"what has no name is left out": {offered: []string{"=x", "nothing", "A=1"}, want: []string{"A=1"}},
		"TMPDIR in a write grant": {
			offered: []string{"TMPDIR=/root/ws/tmp"}, write: []string{"{workspace}"}, tmp: "ws/tmp",
		},
		"TMPDIR elsewhere":       {offered: []string{"TMPDIR=/root/other"}, write: []string{"{workspace}"}},
		"TMPDIR that is missing": {offered: []string{"TMPDIR=/root/ws/none"}, write: []string{"{workspace}"}},
		"a container inherits nothing": {
			offered: []string{"A=1", "S_TOKEN=s", "T_TOKEN=t"}, tier: policy.TierContainer,
			env:      policy.Env{Set: map[string]string{"B": "2"}, Secrets: []string{"S_TOKEN"}},
			add:      []string{"A"},
			want:     []string{"A=1", "B=2", "S_TOKEN=s"},
			withheld: []string{"T_TOKEN"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.dirs("ws/tmp", "other")
			g := launch{write: c.write, edit: func(tr *tree, p *policy.Policy, r *guard.Request) {
				p.Env, p.Tier, r.EnvAdd = c.env, c.tier, c.add
				p.Read.Allow = append(p.Read.Allow, policy.PathRule{Text: tr.path("ws"), Source: "read.allow[0]"})
				r.Env = []string{"HOME=" + tr.path("home")}
				for _, e := range c.offered {
					r.Env = append(r.Env, strings.Replace(e, "=/root/", "="+tr.root+"/", 1))
				}
			}}.grant(tr)
			tmp := "/tmp"
			if c.tmp != "" {
				tmp = tr.path(c.tmp)
			}
			want := append(slices.Clone(c.want), "HOME="+tr.path("home"), "PWD="+tr.path("ws"), "TMPDIR="+tmp)
			slices.Sort(want)
			if diff := cmp.Diff(want, g.Env()); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.withheld, g.Withheld()); diff != "" {
				t.Errorf("withheld (-want +got):\n%s", diff)
			}
			if g.Paths().Tmp != tmp {
				t.Errorf("Paths().Tmp = %q, want %q", g.Paths().Tmp, tmp)
			}
		})
	}
}

// Whatever the caller says with --home, the user's own credentials stay
// denied.
func TestBothHomesAreDenied(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("home/.ssh/id", "made/.ssh/id")
	g := launch{edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Home = tr.path("made") }}.grant(tr)
	if diff := cmp.Diff([]string{"empty home/.ssh", "empty made/.ssh"}, show(tr, g)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if !slices.Contains(g.Env(), "HOME="+tr.path("made")) {
		t.Errorf("HOME isn't --home: %q", g.Env())
	}
}

// A home made for the launch is the command's own: no session on the host
// starts in it.
func TestMadeHomeIsNotGuarded(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("made/.bashrc", "made/.claude/settings.json")
	g := launch{write: []string{"{home}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Home = tr.path("made") }}.grant(tr)
	if diff := cmp.Diff([]string{"read-write made"}, show(tr, g)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestStartDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		launch      launch
		dir, caller string
		want        string
	}{
		"--chdir":                          {dir: "a", want: "a"},
		"--chdir through a link":           {dir: "l", want: "a"},
		"the caller's directory":           {caller: "a", want: "a"},
		"the caller's directory is denied": {launch: launch{deny: []string{"a"}}, caller: "a", want: "ws"},
		"the caller's directory doesn't show": {
			launch: launch{base: policy.BaseNone, write: []string{"{workspace}"}}, caller: "a", want: "ws",
		},
		"the caller's directory is gone": {caller: "gone", want: "ws"},
		"nothing said":                   {want: "ws"},
		"an exception in a deny":         {launch: launch{deny: []string{"a"}, allow: []string{"a/b"}}, dir: "a/b", want: "a/b"},
		"the private directory":          {dir: "/tmp", want: "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.dirs("a/b")
			tr.link("a", "l")
			c.launch.edit = func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Dir, r.CallerDir = tr.path(c.dir), tr.path(c.caller)
			}
			if got := c.launch.grant(tr).Dir(); got != tr.path(c.want) {
				t.Errorf("Dir() = %q, want %q", got, tr.path(c.want))
			}
		})
	}
}
