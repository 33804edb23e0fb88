package hostgit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold/hostgit"
)

// strategy plants a program that is one for git merge.
func (f *farm) strategy() {
	f.t.Helper()
	f.write("git-merge-x/evil", "#!/bin/sh\n"+f.sprungTrap()+" </dev/null\nexit 2\n")
	must(f.t, os.Chmod(f.top+"/git-merge-x/evil", 0o700))
}

// picking leaves two commits still to be picked by a command that stopped at
// a conflict, which is solved, and says that they need the program.
func picking(f *farm) {
	f.strategy()
	f.git("", "branch", "-m", "main")
	f.git("", "checkout", "-q", "-b", "other", "HEAD~1")
	f.write("file.txt", "three\n")
	f.git("", "commit", "-qam", "third")
	for _, name := range []string{"a", "b"} {
		f.write(name, name+"\n")
		f.git("", "add", name)
		f.git("", "commit", "-qm", name)
	}
	f.git("", "checkout", "-q", "main")
	f.git("", "cherry-pick", "main..other")
	f.write("file.txt", "five\n")
	f.git("", "add", "file.txt")
	f.write(".git/sequencer/opts", "[options]\n\tstrategy = x/evil\n")
}

func unfinished() map[string]attack {
	edit := []string{"-c", "core.editor=true"}
	return map[string]attack{
		"a strategy of a cherry-pick":      {picking, [][]string{append(edit, "cherry-pick", "--continue")}, "git_todo"},
		"a strategy of one that skips":     {picking, [][]string{append(edit, "cherry-pick", "--skip")}, "git_todo"},
		"a strategy of an alias's command": {picking, [][]string{append(edit, "-c", "alias.go=!git cherry-pick --continue", "go")}, "git_todo"},
		"a strategy of a hidden command":   {picking, [][]string{append(edit, "-c", "alias.go=more", "-c", "alias.more=-p 'cherry-pick' --continue", "go")}, "git_todo"},
		"a strategy of a rebase": {func(f *farm) {
			f.strategy()
			f.write("file.txt", "three\n")
			f.git("", "commit", "-qam", "third")
			f.git("", "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~2")
			f.write(".git/rebase-merge/strategy", "x/evil\n")
			f.write(".git/rebase-merge/git-rebase-todo", "pick "+strings.TrimSpace(f.git("", "rev-parse", "ORIG_HEAD"))+"\n")
		}, [][]string{{"rebase", "--continue"}}, "git_todo"},
		"exec in another repository's todo": {func(f *farm) {
			f.repository("sub")
			f.git("sub", "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")
			f.write("sub/.git/rebase-merge/git-rebase-todo", "exec "+f.sprungTrap()+" </dev/null\n")
		}, [][]string{{"rebase", "-f", "--exec", "git -C sub rebase --continue", "HEAD~1"}}, "git_todo"},
	}
}

// TestUnknownState: what git keeps of something unfinished is gone on with
// only if everything in it is known.
func TestUnknownState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		args       string
		refused    bool
	}{
		"a file":                   {"rebase-merge/rewritten", "", "rebase --continue", true},
		"an editor's copy":         {"rebase-merge/git-rebase-todo~", "exec x\n", "rebase --continue", false},
		"options of a strategy":    {"rebase-merge/strategy_opts", " '--ours' '--find-renames=5'", "rebase --continue", false},
		"others":                   {"rebase-merge/strategy_opts", " '--index-output=/x'", "rebase --continue", true},
		"unquoted ones":            {"rebase-merge/strategy_opts", " --ours --find-renames=5\n", "rebase --continue", false},
		"otherwise quoted ones":    {"rebase-merge/strategy_opts", ` "--subtree=a \\"b\\"" "--theirs"`, "rebase --continue", false},
		"others unquoted":          {"rebase-merge/strategy_opts", " --ours --index-outpu\\t=/x", "rebase --continue", true},
		"quotes that don't end":    {"rebase-merge/strategy_opts", ` "--ours`, "rebase --continue", true},
		"a key":                    {"rebase-merge/gpg_sign_opt", "-Skey\n", "rebase --continue", false},
		"no key":                   {"rebase-merge/gpg_sign_opt", "--directory=/\n", "rebase --continue", true},
		"a patch":                  {"rebase-apply/0001", "x", "am --continue", false},
		"options of apply":         {"rebase-apply/apply-opt", " '-p1' '--directory=it'\\''s'", "am --skip", false},
		"others of apply":          {"rebase-apply/apply-opt", " '--build-fake-ancestor=/x'", "am --skip", true},
		"a file of am":             {"rebase-apply/x1", "", "am --continue", true},
		"given up":                 {"rebase-apply/x1", "", "am --abort", false},
		"options of picking":       {"sequencer/opts", "[options]\n\tedit = false\n\tstrategy = ort\n\tstrategy-option = theirs\n", "cherry-pick --continue", false},
		"an option that isn't one": {"sequencer/opts", "[options]\n\thook = x\n", "cherry-pick --continue", true},
		"an include of it":         {"sequencer/opts", "[include]\n\tpath = x\n", "revert --continue", true},
		"an option of another's":   {"sequencer/opts", "[options]\n\tstrategy-option = index-output=x\n", "revert --continue", true},
		"work":                     {"sequencer/todo", "pick 1234 x\n", "cherry-pick --continue", false},
		"other work":               {"sequencer/todo", "exec x\n", "cherry-pick --continue", true},
		"a branch":                 {"BISECT_START", "main\n", "bisect reset", false},
		"an option for a branch":   {"BISECT_START", "--recurse-submodules\n", "bisect reset", true},
		"nothing to go on with":    {"sequencer/opts", "[options]\n\thook = x\n", "status", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			f.write(".git/"+c.file, c.text)
			check := func(what string, refused bool) {
				_, err := hostgit.Prepare(t.Context(), f.top, strings.Fields(c.args), f.env)
				switch {
				case !refused:
					must(t, err)
				case err == nil:
					t.Errorf("%s: not refused", what)
				case codeOf(t, err) != "git_todo":
					t.Error(err)
				}
			}
			check("itself", c.refused)
			if c.refused || strings.HasSuffix(c.file, "~") {
				return
			}
			goesOn := !strings.Contains(c.args, "abort") && c.args != "status"
			path := filepath.Join(f.top, ".git", c.file)
			must(t, os.Link(path, f.top+"/another"))
			check("another name", goesOn)
			must(t, os.Remove(path))
			must(t, os.Symlink("../../another", path))
			check("a link", goesOn)
		})
	}
}

// TestEnvironment: a setting that nobody counts doesn't take the place of
// ours, and of two values git gets the one that it would have taken.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	env := slices.Concat(f.env, []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=me",
		"GIT_CONFIG_KEY_1=x.y", "GIT_CONFIG_VALUE_1=z", "GIT_CONFIG_KEY_01=x.y", "A=1", "A=2", "GIT_CONFIG_COUNT=9",
	})
	c, err := hostgit.Prepare(t.Context(), f.top, []string{"status"}, env)
	must(t, err)
	seen := map[string]bool{}
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		if seen[name] {
			t.Errorf("%q is there twice", name)
		}
		seen[name] = true
		if value == "x.y" || value == "z" || name == "A" && value != "1" {
			t.Errorf("the environment holds %q", e)
		}
	}
	if !slices.Contains(c.Env, "GIT_CONFIG_KEY_0=user.name") || !slices.Contains(c.Env, "GIT_CONFIG_KEY_1=core.hooksPath") {
		t.Errorf("settings are missing: %v", c.Env)
	}
}
