package hostgit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/policy"
)

// maxNested bounds the repositories that are looked into, maxEntries the
// names that are looked at to find them.
const (
	maxNested  = 2000
	maxEntries = 2_000_000
)

func tooMany(dir string) error {
	return refusal(policy.Denied, "git_nested", dir, fmt.Sprintf("cannot look into all that %q leads to: there is too much", dir), "run git in a directory below")
}

// look finds the repository that git would use, and all that it leads to, and
// reads their configuration.
func (p *preparation) look() error {
	gitDir, err := p.ask("rev-parse", "--absolute-git-dir")
	if none(err) {
		return nil
	}
	if err != nil {
		return refusal(policy.Denied, "git_repository", p.dir, fmt.Sprintf("cannot tell which repository git would use in %q: %v", p.dir, err),
			"see what git says there; a repository without a work tree has to be named: pinfold git --git-dir DIR")
	}
	common, err := p.ask("rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return refusal(policy.Denied, "git_repository", p.dir, fmt.Sprintf("cannot tell which repository git would use in %q: %v", p.dir, err), "see what git says there")
	}
	p.gitDir = resolved(gitDir)
	if top, err := p.ask("rev-parse", "--show-toplevel"); err == nil && top != "" {
		top = resolved(top)
		p.tree(top, gitDir)
		p.trees = append(p.trees, top)
		if err := p.outermost(top); err != nil {
			return err
		}
	}
	if common = resolved(common); beneath(p.gitDir, filepath.Join(common, "worktrees")) && filepath.Base(common) == ".git" {
		p.trees = append(p.trees, filepath.Dir(common))
	}
	for _, dir := range []string{gitDir, common} {
		if err := p.repository(dir); err != nil {
			return err
		}
	}
	if err := p.list(p.files); err != nil { // before a core.worktree is believed
		return err
	}
	if err := p.everyTree(); err != nil {
		return err
	}
	if err := p.list(p.files); err != nil {
		return err
	}
	if err := p.gitlinks(); err != nil {
		return err
	}
	return p.settled()
}

// none reports whether git says that there is no repository.
func none(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "fatal: not a git repository")
}

// tree notes a work tree and its git directory.
func (p *preparation) tree(top, gitDir string) {
	if !slices.Contains(p.tops, top) {
		p.tops = append(p.tops, top)
		p.gitDirOf[top] = gitDir
	}
}

// everyTree walks the work trees, which may grow more meanwhile.
func (p *preparation) everyTree() error {
	for ; p.walked < len(p.tops); p.walked++ {
		top := p.tops[p.walked]
		if p.walked > 0 && slices.ContainsFunc(p.tops[:p.walked], func(other string) bool { return beneath(top, other) }) {
			continue // that walk came here
		}
		if err := p.walk(top, top); err != nil {
			return err
		}
	}
	return nil
}

// walk looks for repositories in a work tree: whatever a commit or an index
// says is a submodule, git can only find one of these there.
func (p *preparation) walk(dir, top string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return passed(dir, err)
	}
	if p.entered += len(entries); p.entered > maxEntries {
		return tooMany(top)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.EqualFold(e.Name(), ".git"):
			if err := p.nested(dir, path); err != nil {
				return err
			}
		case e.IsDir():
			if err := p.walk(path, top); err != nil {
				return err
			}
		}
	}
	return p.ctx.Err()
}

// passed judges a directory that can't be listed: if nothing beneath it can be
// reached either, git can't.
func passed(dir string, err error) error {
	if missing(err) {
		return nil
	}
	if _, inside := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, fs.ErrPermission) && errors.Is(inside, fs.ErrPermission) {
		return nil
	}
	return refusal(policy.Denied, "git_nested", dir, fmt.Sprintf("cannot see whether there are repositories in %q: %v", dir, err), "make it readable, or remove it")
}

// nested notes the repository of a directory.
func (p *preparation) nested(dir, dotGit string) error {
	from := resolved(dir)
	if _, seen := p.gitDirOf[from]; seen && from == dir {
		return nil
	}
	if _, err := os.Lstat(dotGit); err != nil && missing(err) {
		return nil
	}
	if err := p.passing(dotGit, dotGit, from, false); err != nil {
		return err
	}
	gitDir, err := pointer(dotGit)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoPointer):
		return nil // git finds none there either
	case err != nil:
		return refusal(policy.Denied, "git_repository", dotGit, fmt.Sprintf("cannot tell which repository %q is: %v", dotGit, err), "look at it, or remove it")
	}
	if len(p.gitDirOf) >= maxNested {
		return tooMany(p.dir)
	}
	if err := p.passing(dotGit, gitDir, from, false); err != nil {
		return err
	}
	p.tree(from, gitDir)
	return p.repository(gitDir)
}

// repository notes a git directory and those that belong to it: the common
// one, worktrees', submodules'.
func (p *preparation) repository(gitDir string) error {
	dir := resolved(gitDir)
	if p.gitDirs[dir] {
		return nil
	}
	if len(p.gitDirs) >= maxNested {
		return tooMany(p.dir)
	}
	p.gitDirs[dir] = true
	if path := odd(dir); path != "" {
		return notAFile(path)
	}
	p.files = append(p.files, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
	if err := p.config(dir); err != nil {
		return err
	}
	common, err := pointed(filepath.Join(dir, "commondir"), "")
	switch {
	case err == nil:
		if err := p.passing(filepath.Join(dir, "commondir"), common, dir, false); err != nil {
			return err
		}
		if err := p.repository(common); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return refusal(policy.Denied, "git_repository", dir, fmt.Sprintf("cannot tell which repository %q belongs to: %v", dir, err), "look at its file commondir")
	}
	if err := p.worktrees(dir); err != nil {
		return err
	}
	return p.modules(filepath.Join(dir, "modules"))
}

// worktrees notes the git directories of linked worktrees, and the worktrees
// themselves where the command may enter them.
func (p *preparation) worktrees(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "worktrees"))
	if err != nil {
		return unlisted(filepath.Join(dir, "worktrees"), err)
	}
	for _, e := range entries {
		linked := filepath.Join(dir, "worktrees", e.Name())
		if err := p.repository(linked); err != nil {
			return err
		}
		if top := worktreeOf(linked); top != "" {
			p.trees = append(p.trees, top)
			if p.entersWorktrees {
				p.tree(top, linked)
			}
		}
	}
	return nil
}

// worktreeOf is the linked worktree of a git directory, if each names the
// other.
func worktreeOf(linked string) string {
	dotGit, err := pointed(filepath.Join(linked, "gitdir"), "")
	if err != nil {
		return ""
	}
	if back, err := pointer(dotGit); err != nil || resolved(back) != resolved(linked) {
		return ""
	}
	return resolved(filepath.Dir(dotGit))
}

func unlisted(dir string, err error) error {
	if missing(err) {
		return nil
	}
	return refusal(policy.Denied, "git_repository", dir, fmt.Sprintf("cannot look into %q: %v", dir, err), "see what stands there")
}

// modules looks for git directories of submodules, checked out or not. Their
// names may hold slashes, so it looks everywhere.
func (p *preparation) modules(dir string) error {
	dir = resolved(dir)
	if p.entered++; p.modulesSeen[dir] {
		return nil
	}
	p.modulesSeen[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unlisted(dir, err)
	}
	if p.entered += len(entries); p.entered > maxEntries {
		return tooMany(dir)
	}
	has := map[string]bool{}
	for _, e := range entries {
		has[e.Name()] = true
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			if err := p.module(filepath.Join(dir, e.Name()), e); err != nil {
				return err
			}
		}
	}
	if has["HEAD"] && (has["config"] || has["config.worktree"] || has["commondir"]) {
		return p.repository(dir)
	}
	return p.ctx.Err()
}

// module enters a directory, or what a link leads to.
func (p *preparation) module(path string, e fs.DirEntry) error {
	if !e.IsDir() {
		info, err := os.Stat(path)
		if err != nil {
			return refusal(policy.Denied, "git_repository", path, fmt.Sprintf("cannot follow the link %q: %v", path, err), "remove it")
		}
		if !info.IsDir() {
			return nil
		}
		if err := p.passing(path, path, filepath.Dir(path), false); err != nil {
			return err
		}
	}
	return p.modules(path)
}

// gitlinks looks into what indexes name: a path may lead through a link.
func (p *preparation) gitlinks() error {
	for i := 0; i < len(p.tops); i++ {
		top := p.tops[i]
		index, err := p.run(top, p.reading(i > 0),
			"--git-dir="+p.gitDirOf[top], "--work-tree="+top, "ls-files", "-s", "-z", "--full-name", ":/")
		switch {
		case i == 0 && err != nil && !none(err):
			return refusal(policy.Denied, "git_index", top, fmt.Sprintf("cannot list the index: %v", err), "see whether .git/index is what it should be")
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		}
		for entry := range bytes.SplitSeq(index, []byte{0}) {
			mode, name, ok := strings.Cut(string(entry), "\t")
			if !ok || !strings.HasPrefix(mode, "160000 ") {
				continue
			}
			dir := filepath.Join(top, name)
			if err := p.nested(dir, filepath.Join(dir, ".git")); err != nil {
				return err
			}
		}
		if err := p.everyTree(); err != nil {
			return err
		}
		if err := p.list(p.files); err != nil {
			return err
		}
	}
	return nil
}

// reading is the environment for reading an index: another repository's than
// the one that variables speak of.
func (p *preparation) reading(another bool) []string {
	env := append(p.withSettings(), "GIT_NO_LAZY_FETCH=1")
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return another && slices.Contains([]string{"GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}, name)
	})
}

// settled refuses git directories and included files that git itself may
// write, now that all work trees are known: a checkout puts there what a
// commit says, and the next git that it starts obeys it.
func (p *preparation) settled() error {
	for dir := range p.gitDirs {
		for _, top := range p.tops {
			if beneath(dir, top) && !named(strings.TrimPrefix(dir, top)) {
				return refusal(policy.Denied, "git_repository", dir,
					fmt.Sprintf("cannot use the git directory %q: it lies in the work tree %q, where a commit may put files", dir, top),
					"have it in a directory that is called .git, or outside")
			}
		}
	}
	for _, e := range p.includes {
		if p.own(e.passes) {
			return changing(e.entry)
		}
	}
	if err := p.foreign(); err != nil {
		return err
	}
	return p.strays()
}

// own reports whether a path lies in a repository.
func (p *preparation) own(path string) bool {
	for dir := range p.gitDirs {
		if beneath(path, dir) {
			return true
		}
	}
	return slices.ContainsFunc(p.tops, func(top string) bool { return beneath(path, top) })
}
