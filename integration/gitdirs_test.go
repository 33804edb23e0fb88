//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitRun runs the host's git, as the operator whose home is the lab's.
func (l *lab) gitRun(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd "+l.ws+" && HOME="+l.home+" GIT_CONFIG_NOSYSTEM=1 git -c protocol.file.allow=always "+args).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// withSubmodule gives the lab's repository a submodule that isn't checked out,
// as a clone has it.
func (l *lab) withSubmodule(t *testing.T) {
	t.Helper()
	l.sh(t, "git init -q "+l.root+"/lib && cd "+l.root+"/lib && echo a >a && git add a && "+
		"git -c user.name=a -c user.email=a@b commit -qm one")
	l.gitRun(t, "submodule --quiet add file://"+l.root+"/lib lib")
	l.gitRun(t, "commit -qm lib")
	l.gitRun(t, "submodule --quiet deinit -f lib")
	must(t, os.RemoveAll(l.ws+"/.git/modules"))
}

// plantModule makes a git directory whose configuration has a program run on
// checkout.
const plantModule = `mkdir -p {ws}/.git/modules && git clone -q --no-hardlinks --bare {root}/lib {root}/ws/.git/modules/lib; cd {ws}/.git/modules/lib &&
	git config core.bare false && git config filter.ev.smudge "touch {public}/PLANTED; cat" && mkdir -p info && echo '* filter=ev' >info/attributes; sleep 0.1`

// TestPlantedSubmodule: what is planted where git would clone a submodule to is
// gone when the run is over, and the host's git clones.
func TestPlantedSubmodule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		except  string
		planted bool
	}{
		"guarded":                     {except: `[".vscode"]`},
		"control: what would be done": {except: `[".git/modules"]`, planted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.withSubmodule(t)
			policy := `{"write": ["{workspace}"], "guard_workspace": {"except": ` + c.except + `}}`
			res := l.wrap(t, launch{policy: policy, argv: []string{"sh", "-c", l.place(nil).Replace(plantModule)}})
			if took := strings.Contains(res.stderr, `".git/modules"`) && strings.Contains(res.stderr, "took away"); took == c.planted {
				t.Errorf("%v", res)
			}
			l.gitRun(t, "submodule --quiet update --init")
			if _, err := os.Stat(l.public + "/PLANTED"); (err == nil) != c.planted {
				t.Errorf("what was planted ran: %v, wanted %v", err == nil, c.planted)
			}
			if got := read(t, l.ws+"/lib/a"); got != "a\n" {
				t.Errorf("checked out %q", got)
			}
		})
	}
}

// TestModulesInUse: a submodule that is checked out works inside, and beside it
// nothing can be made.
func TestModulesInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withSubmodule(t)
	l.gitRun(t, "submodule --quiet update --init")
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", l.place(nil).Replace(
		"cd {ws}/lib && echo b >b && git add b && git commit -qm b && git gc -q && git log --oneline | wc -l; " +
			"mkdir {ws}/.git/modules/new 2>&- || echo held; mv {ws}/.git/modules/lib {ws}/.git/modules/l 2>&- || echo held; " +
			"mkdir {ws}/.git/modules/lib/modules; until [ ! -e {ws}/.git/modules/lib/modules ]; do sleep 0.01; done; echo gone")}})
	if res.code != 0 || res.stdout != "2\nheld\nheld\ngone\n" {
		t.Errorf("%v", res)
	}
	if got := l.gitRun(t, "-C lib log --oneline | wc -l"); strings.TrimSpace(got) != "2" {
		t.Errorf("the host sees %q commits", got)
	}
}

// TestNewWorktrees: worktrees can be made inside, and none that gives git a
// configuration which isn't the repository's.
func TestNewWorktrees(t *testing.T) {
	t.Parallel()
	const add = "cd {ws} && git worktree add -q --detach {ws}/tree && "
	for name, c := range map[string]struct {
		make string
		gone string // beneath .git/worktrees
		kept string
	}{
		"an honest one":        {make: add + "cd tree && echo x >x && git add x && git commit -qm x && git -C {ws} worktree list | wc -l", kept: "tree/HEAD"},
		"another common one":   {make: add + "mkdir {ws}/evil; echo {ws}/evil >.git/worktrees/tree/commondir", gone: "tree"},
		"a link for a common":  {make: add + "echo ../.. >{ws}/c; ln -sf {ws}/c .git/worktrees/tree/commondir", gone: "tree"},
		"configuration":        {make: add + "echo '[core]fsmonitor=x' >.git/worktrees/tree/config.worktree", gone: "tree/config.worktree", kept: "tree/HEAD"},
		"modules":              {make: add + "(mkdir -p .git/worktrees/tree/modules/lib 2>&- || :)", gone: "tree/modules", kept: "tree/HEAD"},
		"one that is whole":    {make: "cd {ws} && git init -q --bare {ws}/b && mkdir .git/worktrees && mv b .git/worktrees/tree", gone: "tree"},
		"one that is a link":   {make: "cd {ws} && git init -q --bare {ws}/b && mkdir .git/worktrees && ln -s ../../b .git/worktrees/tree", gone: "tree"},
		"a link for them all":  {make: "cd {ws} && mkdir w && ln -s ../w .git/worktrees", gone: "."},
		"one that is closed":   {make: add + "echo x >.git/worktrees/tree/config.worktree; chmod 0 .git/worktrees/tree .git/worktrees", gone: "tree/config.worktree", kept: "tree/HEAD"},
		"changed when it runs": {make: add + "sleep 0.1; printf /evil >.git/worktrees/tree/commondir", gone: "tree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", l.place(nil).Replace(c.make)}})
			if res.code != 0 || strings.Contains(res.stderr, "took away") != (c.gone != "") {
				t.Errorf("%v", res)
			}
			if c.gone != "" {
				absent(filepath.Join(l.ws, ".git/worktrees", c.gone))(t, l)
			}
			if _, err := os.Stat(filepath.Join(l.ws, ".git/worktrees", c.kept)); c.kept != "" && err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(l.ws + "/.git/.pinfold*"); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
