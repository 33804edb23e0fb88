package guard_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// What a link in a guarded directory leads to is read-only too, where it could
// be written; what lies beside it isn't.
func TestLinksInGuardedDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		link, target string
		edit         func(*tree, *policy.Policy, *guard.Request)
		want         string // read-only besides, "" for nothing
		note         string
	}{
		"a hook":                     {link: "ws/.git/hooks/pre-commit", target: "../../scripts/hook", want: "ws/scripts/hook"},
		"by its whole path":          {link: "ws/.git/hooks/pre-commit", target: "/root/ws/scripts/hook", want: "ws/scripts/hook"},
		"a nested repository's":      {link: "ws/in/.git/hooks/x", target: "../../run", want: "ws/in/run"},
		"an editor's":                {link: "ws/.vscode/tasks.json", target: "../scripts/hook", want: "ws/scripts/hook"},
		"an agent's":                 {link: "ws/.claude/commands/x.md", target: "../../scripts/hook", want: "ws/scripts/hook"},
		"a directory":                {link: "ws/.husky/_", target: "../scripts", want: "ws/scripts"},
		"of core.hooksPath":          {link: "ws/hk/pre-push", target: "../scripts/hook", want: "ws/scripts/hook"},
		"of core.hooksPath, outside": {link: "outer/hk/pre-push", target: "/root/ws/scripts/hook", want: "ws/scripts/hook"},
		"the home's":                 {link: "home/.config/fish/config.fish", target: "/root/ws/scripts/hook", want: "ws/scripts/hook"},
		"of a repository above":      {link: ".git/hooks/pre-commit", target: "../../ws/scripts/hook", want: "ws/scripts/hook"},
		"of a repository above, whose directory may not be written": {
			link: "ws/.git/hooks/pre-commit", target: "../../scripts/hook", want: "ws/scripts/hook",
			edit: func(tr *tree, p *policy.Policy, _ *guard.Request) { p.ReadOnly = tr.rules("read_only", "", "ws/.git") },
		},
		"in a directory of it":        {link: "ws/.git/hooks/pre-commit.d/x", target: "../../../scripts/hook", want: "ws/scripts/hook"},
		"a unit of systemd":           {link: "home/.config/systemd/user/a.service", target: "/root/ws/scripts/hook", want: "ws/scripts/hook"},
		"in a module":                 {link: "ws/.git/hooks/node_modules/m", target: "../../../scripts/hook"},
		"nothing yet":                 {link: "ws/.git/hooks/x", target: "../../none", note: "nothing stands there yet"},
		"nothing elsewhere":           {link: "ws/.git/hooks/x", target: "/root/none"},
		"outside of the grant":        {link: "ws/.git/hooks/x", target: "/root/outer/f"},
		"in the directory":            {link: "ws/.git/hooks/x", target: "y"},
		"itself":                      {link: "ws/.git/hooks/x", target: "x"},
		"the workspace":               {link: "ws/.vscode/root", target: "..", note: "it holds what is granted"},
		"above the workspace":         {link: "ws/.vscode/root", target: "../..", note: ""},
		"its checkout":                {link: "ws/in/.git/hooks/x", target: "../..", note: "it holds what is granted"},
		"excepted with the directory": {link: "ws/.git/hooks/x", target: "../../scripts/hook", edit: except(".git/hooks")},
		"excepted":                    {link: "ws/.git/hooks/x", target: "../../scripts/hook", edit: except(".git/hooks/x")},
		"excepted by its own path":    {link: "ws/.git/hooks/x", target: "../../scripts/hook", edit: except("scripts/hook")},
		"another is excepted": {
			link: "ws/.git/hooks/x", target: "../../scripts/hook", edit: except(".git/hooks/y"), want: "ws/scripts/hook",
		},
		"read-only anyway": {
			link: "ws/.git/hooks/x", target: "../../scripts/hook",
			edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
				p.ReadOnly = tr.rules("read_only", "", "ws/scripts")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files("ws/scripts/hook", "ws/scripts/beside", "ws/in/run", "outer/f", "outer/hk/f", "ws/hk/f", "ws/.git/hooks/y")
			tr.repo("ws")
			tr.repo("ws/in")
			tr.repo(".")
			tr.git("ws", "config", "--add", "core.hooksPath", "hk")
			tr.git("ws", "config", "--add", "core.hooksPath", tr.path("outer/hk"))
			l := launch{write: []string{"{workspace}"}, edit: c.edit}
			before := show(tr, l.grant(tr))
			tr.link(c.target, c.link)
			g := l.grant(tr)
			checkLinkGuarded(tr, g, before, c.link, c.want)
			if notes := strings.Join(g.Notes(), "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "in it leads") {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

func except(names ...string) func(*tree, *policy.Policy, *guard.Request) {
	return func(_ *tree, p *policy.Policy, _ *guard.Request) { p.GuardWorkspace.Except = names }
}

// checkLinkGuarded: what a link leads to, and the directory of the link, are
// all that is read-only now and wasn't.
func checkLinkGuarded(tr *tree, g *guard.Grant, before []string, at, want string) {
	tr.t.Helper()
	dir := "read-only " + at[:strings.LastIndexByte(at, '/')]
	got := slices.DeleteFunc(show(tr, g), func(s string) bool { return slices.Contains(before, s) || s == dir })
	if want == "" {
		if len(got) > 0 {
			tr.t.Errorf("besides: %q", got)
		}
		return
	}
	if !slices.Equal(got, []string{"read-only " + want}) {
		tr.t.Errorf("besides: %q, wanted %s", got, want)
	}
	e, err := g.Explain(tr.path(at))
	if err != nil {
		tr.t.Fatal(err)
	}
	if lift := e.Rule.Lift(); e.Writable || !strings.HasSuffix(lift, at[strings.Index(at, "/.")+1:]+`"]}`) && !strings.Contains(at, "hk/") {
		tr.t.Errorf("explained as %+v, lifted by %s", e, lift)
	}
}

// A link on the way to what is run can be pointed elsewhere, wherever it leads
// now.
func TestLinksThatCanBeReaimed(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"real", "/root/outer/f", "../.git/hooks/y"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files("ws/scripts/real", "outer/f", "ws/.git/hooks/y")
			tr.repo("ws")
			tr.link(target, "ws/scripts/hook")
			l := launch{write: []string{"{workspace}"}}
			l.grant(tr)
			tr.link("../../scripts/hook", "ws/.git/hooks/x")
			if r := l.refused(tr, "reaimable_symlink"); !strings.Contains(r.Fix, `".git/hooks/x"`) {
				t.Errorf("hint: %s", r.Fix)
			}
			l.edit = except(".git/hooks/x")
			l.grant(tr)
		})
	}
}

// More links than are followed are told of.
func TestManyLinksInAGuardedDirectory(t *testing.T) {
	t.Parallel()
	for n, told := range map[int]bool{64: false, 65: true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			for i := range n {
				tr.files(fmt.Sprintf("ws/md/%02d", i))
				tr.link(fmt.Sprintf("../../md/%02d", i), fmt.Sprintf("ws/.claude/commands/%02d", i))
			}
			g := launch{write: []string{"{workspace}"}}.grant(tr)
			got := slices.DeleteFunc(show(tr, g), func(s string) bool { return !strings.HasPrefix(s, "read-only ws/md/") })
			if len(got) != 64 {
				t.Errorf("%d are read-only", len(got))
			}
			if notes := strings.Join(g.Notes(), "\n"); strings.Contains(notes, "more than 64 symbolic links") != told {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

// A worktree's hooks are its repository's, wherever that is.
func TestLinksOfAnOuterRepository(t *testing.T) {
	t.Parallel()
	worktree := func(tr *tree, at string) { tr.git("r", "worktree", "add", "-q", tr.path(at)) }
	apart := func(tr *tree, at string) {
		tr.dirs("away")
		tr.git("away", "init", "-q", "--separate-git-dir="+tr.path("r/.git"), tr.path(at))
	}
	for at, prepare := range map[string]func(*tree, string){"ws": worktree, "ws/wt": worktree, "ws/apart": apart} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.repo("r")
			if err := os.RemoveAll(tr.path("ws")); err != nil {
				t.Fatal(err)
			}
			prepare(tr, at)
			tr.files(at+"/scripts/hook", at+"/scripts/beside", at+"/hk/f")
			l := launch{write: []string{"{workspace}"}}
			before := show(tr, l.grant(tr))
			tr.link("/root/"+at+"/scripts/hook", "r/.git/hooks/pre-commit")
			tr.git("r", "config", "core.hooksPath", "hk")
			got := slices.DeleteFunc(show(tr, l.grant(tr)), func(s string) bool { return slices.Contains(before, s) })
			if want := []string{"read-only " + at + "/hk", "read-only " + at + "/scripts/hook"}; !slices.Equal(got, want) {
				t.Errorf("besides: %q, wanted %q", got, want)
			}
		})
	}
}
