package hostgit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/policy"
)

// todoWords are what a rebase does by itself. "exec" isn't among them, nor
// what a newer git may add.
const todoWords = "pick p revert edit e reword r fixup f squash s drop d noop label l reset t merge m break b update-ref u"

// strategies are git's own: another one is a program's name.
const strategies = "ort recursive resolve octopus ours subtree"

// maxTodo bounds a list of things to do.
const maxTodo = 16 << 20

// unfinished refuses to go on with a rebase whose state names a program: it
// lies in the git directory, where a command may write.
func (p *preparation) unfinished() error {
	if p.gitDir == "" || !p.continues() {
		return nil
	}
	dir := filepath.Join(p.gitDir, "rebase-merge")
	todo, err := state(filepath.Join(dir, "git-rebase-todo"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(todo) {
		word, _, _ := strings.Cut(strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t"), " ")
		word, _, _ = strings.Cut(word, "\t")
		if word == "" || strings.HasPrefix(word, "#") || slices.Contains(strings.Fields(todoWords), word) {
			continue
		}
		return refusal(policy.Denied, "git_todo", dir,
			fmt.Sprintf("cannot go on with the rebase: its list of things to do, %q, holds %q", filepath.Join(dir, "git-rebase-todo"), strings.TrimSpace(line)),
			"take the line out of that file, or git rebase --abort")
	}
	strategy, err := state(filepath.Join(dir, "strategy"))
	if err != nil {
		return err
	}
	if s := strings.TrimSpace(strategy); s != "" && !slices.Contains(strings.Fields(strategies), s) {
		return refusal(policy.Denied, "git_todo", dir, fmt.Sprintf("cannot go on with the rebase: %q names the strategy %q", filepath.Join(dir, "strategy"), s), "git rebase --abort")
	}
	return nil
}

// state reads a file of an unfinished rebase: "" is none.
func state(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil && missing(err) {
		return "", nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxTodo) {
		err = errors.New("it isn't a file of a usual size")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", refusal(policy.Denied, "git_todo", path, fmt.Sprintf("cannot read %q: %v", path, err), "git rebase --abort")
	}
	return string(b), nil
}

// continues reports whether the command may go on with a rebase. An alias that
// is a shell's may do anything.
func (p *preparation) continues() bool {
	words := p.expanded
	if len(words) == 0 {
		return false
	}
	if strings.HasPrefix(words[0], "!") {
		return true
	}
	return words[0] == "rebase" && !slices.ContainsFunc(words[1:], func(w string) bool {
		return w == "--abort" || w == "--quit" || w == "--show-current-patch"
	})
}
