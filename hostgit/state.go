package hostgit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/policy"
)

// resumed says which files git keeps in a directory of what is unfinished. It
// goes on from what they say, so that a name which isn't known is refused:
// until 2.33, for one, git sourced a file of a rebase that had another beside.
var resumed = map[string]string{ //nolint:gochecknoglobals // a table
	"rebase-merge": "git-rebase-todo git-rebase-todo.backup dropped done msgnum end message message-squash message-fixup " +
		"current-fixups author-script amend stopped-sha patch rewritten-list rewritten-pending squash-onto refs-to-delete " +
		"update-refs gpg_sign_opt cdate_is_adate ignore_date head-name onto orig-head head verbose quiet signoff autostash " +
		"strategy strategy_opts allow_rerere_autoupdate reschedule-failed-exec no-reschedule-failed-exec " +
		"drop_redundant_commits keep_redundant_commits interactive trailer",
	"rebase-apply": "next last info msg patch patch-merge-index author-script abort-safety final-commit original-commit " +
		"threeway quiet sign utf8 keep messageid scissors quoted-cr apply-opt rebasing applying rewritten rerere-autoupdate " +
		"dirtyindex head-name onto orig-head head autostash verbose signoff allow_rerere_autoupdate gpg_sign_opt no-verify",
	"sequencer": "todo opts head abort-safety",
}

// lying are files of a git directory itself that git goes on from.
const lying = "BISECT_START BISECT_NAMES BISECT_TERMS BISECT_LOG BISECT_RUN MERGE_MSG SQUASH_MSG MERGE_MODE CHERRY_PICK_HEAD REVERT_HEAD MERGE_HEAD"

// leavings are endings of names that git doesn't read: an editor's copies and
// the locks of a git that was killed.
var leavings = []string{"~", ".swp", ".swo", ".lock"} //nolint:gochecknoglobals // a table

// maxState bounds a file of what is unfinished.
const maxState = 16 << 20

// unfinished refuses to go on with what a git directory holds unfinished, if
// that may name a program: a command may write there.
func (p *preparation) unfinished() error {
	for _, dir := range p.continued() {
		for name, files := range resumed {
			if err := p.unfinishedIn(filepath.Join(dir, name), strings.Fields(files)); err != nil {
				return err
			}
		}
		for _, name := range strings.Fields(lying) {
			text, err := state(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if name == "BISECT_START" && strings.HasPrefix(text, "-") {
				return unsure(filepath.Join(dir, name), fmt.Sprintf("it names the branch %q", strings.TrimSpace(text)), "git bisect reset HEAD")
			}
		}
	}
	return nil
}

// unfinishedIn judges one directory of what is unfinished.
func (p *preparation) unfinishedIn(dir string, known []string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil && missing(err):
		return nil
	case err == nil && !info.IsDir():
		err = errors.New("it isn't a directory")
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return unsure(dir, err.Error(), giveUp(dir))
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.ContainsFunc(leavings, func(end string) bool { return strings.HasSuffix(name, end) }):
		case !slices.Contains(known, name) && (filepath.Base(dir) != "rebase-apply" || strings.Trim(name, "0123456789") != ""):
			return unsure(dir, fmt.Sprintf("what git does with its file %q isn't known", name), giveUp(dir))
		default:
			if err := p.says(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// says judges what one file tells git to do.
func (p *preparation) says(dir, name string) error {
	path := filepath.Join(dir, name)
	text, err := state(path)
	if err != nil {
		return err
	}
	why := ""
	switch line := strings.TrimSpace(text); name {
	case "git-rebase-todo", "todo":
		why = unknownWork(text)
	case "strategy":
		if line != "" && !isStrategy(line) {
			why = fmt.Sprintf("it names the strategy %q", line)
		}
	case "strategy_opts":
		why = unknownOption(text, isStrategyOption)
	case "apply-opt":
		why = unknownOption(text, isApplyOption)
	case "gpg_sign_opt":
		if line != "" && !strings.HasPrefix(line, "-S") && line != "--no-gpg-sign" {
			why = fmt.Sprintf("it holds %q", line)
		}
	case "opts":
		why, err = p.options(path)
	}
	if why != "" {
		return unsure(path, why, giveUp(dir))
	}
	return err
}

// giveUp says how to be rid of what is unfinished.
func giveUp(dir string) string {
	switch filepath.Base(dir) {
	case "sequencer":
		return "look at it; pinfold git cherry-pick --quit takes it away"
	case "rebase-apply":
		return "look at it; pinfold git am --quit, or rebase --quit, takes it away"
	}
	return "look at it, and take the line or the file out, or pinfold git rebase --abort"
}

func unsure(path, why, fix string) error {
	return refusal(policy.Denied, "git_todo", path, fmt.Sprintf("cannot go on with what is unfinished in %q: %s", path, why), fix)
}

// state reads a file of what is unfinished: "" is none. One that is reached
// by a link, or has another name, may lie where git itself writes.
func state(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil && missing(err) {
		return "", nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxState || hasNames(info)) {
		err = errors.New("it isn't a file of a usual size, with one name")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", unsure(path, err.Error(), giveUp(filepath.Dir(path)))
	}
	return string(b), nil
}

// goesOn are the commands that go on with what is unfinished.
const goesOn = "rebase cherry-pick revert am bisect"

// continued are the git directories in which the command may go on with what
// is unfinished. Some run what the operator says, which may be git elsewhere.
func (p *preparation) continued() []string {
	words := p.expanded
	if len(words) == 0 {
		return nil
	}
	has := func(options ...string) bool {
		return slices.ContainsFunc(words[1:], func(w string) bool { return slices.Contains(options, w) })
	}
	all := slices.Sorted(maps.Keys(p.gitDirs))
	switch name := words[0]; {
	case strings.HasPrefix(name, "!"), name == "submodule" && has("foreach"):
		return all
	case p.gitDir == "", !slices.Contains(strings.Fields(goesOn), name), has("--abort", "--quit", "--show-current-patch"):
		return nil
	case name == "bisect", name == "rebase":
		return all
	}
	return []string{p.gitDir}
}
