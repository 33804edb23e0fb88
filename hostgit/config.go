package hostgit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pinfold/policy"
)

// entry is one line of a configuration file.
type entry struct {
	file, key, value string
}

// maxFiles and maxKeys bound what is listed, and what a process can be given.
const (
	maxFiles = 5000
	maxKeys  = 2000
	atOnce   = 400
)

// list reads configuration files, and those that they include whatever the
// condition, since a condition may come true while git works.
func (p *preparation) list(files []string) error {
	for len(files) > 0 {
		var batch []string
		for len(files) > 0 && len(batch) < atOnce {
			file := files[0]
			files = files[1:]
			if p.listed[file] {
				continue
			}
			p.listed[file] = true
			there, err := isFile(file)
			if err != nil {
				return refusal(policy.Denied, "git_config", file, fmt.Sprintf("cannot read the configuration %q: %v", file, err), "look at what stands there")
			}
			if there {
				batch = append(batch, file)
			}
		}
		if len(p.listed) > maxFiles {
			return tooMany(p.dir)
		}
		entries, err := p.entries(batch)
		if err != nil {
			return err
		}
		for _, e := range entries {
			more, err := p.judge(e)
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
	}
	return nil
}

// isFile reports whether a regular file stands at a path, through links.
func isFile(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, errors.New("it isn't a regular file")
	}
	return true, nil
}

// entries has git list files as data, without a repository around it: each is
// included by a configuration of nothing else.
func (p *preparation) entries(files []string) ([]entry, error) {
	if len(files) == 0 {
		return nil, nil
	}
	var includes []setting
	for _, file := range files {
		includes = append(includes, setting{"include.path", file})
	}
	env := slices.DeleteFunc(slices.Clone(p.env), func(e string) bool { return strings.HasPrefix(e, "GIT_") })
	env = override(append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull), includes)
	out, err := p.run("/", env, "config", "--list", "-z", "--show-origin", "--includes")
	if err != nil {
		return nil, refusal(policy.Denied, "git_config", files[0], fmt.Sprintf("cannot list the configuration: %v", err), "see whether this file is what it should be")
	}
	fields := bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0})
	var all []entry
	for i := 0; i+1 < len(fields); i += 2 {
		file, ok := strings.CutPrefix(string(fields[i]), "file:")
		if !ok {
			continue // ours
		}
		key, value, _ := strings.Cut(string(fields[i+1]), "\n")
		all = append(all, entry{file, key, value})
	}
	return all, nil
}

// judge looks at one key of a repository's, and answers which files it
// includes.
func (p *preparation) judge(e entry) (more []string, err error) {
	section, name := parts(e.key)
	if name == "path" && (section == "include" || section == "includeif") {
		file, err := p.included(e)
		return []string{file}, err
	}
	if section == "core" && name == "worktree" && p.leadsBack(e) || isOwn(section, name, e.value) {
		return nil, nil
	}
	r, dangerous := remedyFor(e.key)
	switch {
	case dangerous && r.refuse, !dangerous && !isHarmless(e.key):
		return nil, refusal(policy.Denied, "git_config", e.key,
			fmt.Sprintf("cannot run git: the repository's configuration %q sets %s", e.file, e.key), unset(e))
	case dangerous && !slices.Contains(p.found, e.key):
		p.found = append(p.found, e.key)
	}
	if len(p.found) > maxKeys {
		return nil, tooMany(p.dir)
	}
	return nil, nil
}

// unset says how to take a key out of a file.
func unset(e entry) string {
	return "look at it, and unset it: git config --file " + quote(e.file) + " --unset-all " + quote(e.key)
}

// quote makes one word of a shell's.
func quote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// included finds the file that an include means, and refuses one that git
// itself can write: in a work tree, where a checkout puts what a commit says,
// or in a git directory.
func (p *preparation) included(e entry) (string, error) {
	path := e.value
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(lookup(p.env, "HOME"), rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(resolved(filepath.Dir(e.file)), path)
	}
	odd := e.value == "" || strings.HasPrefix(e.value, "%(") || strings.HasPrefix(e.value, ":(") || strings.HasPrefix(path, "~") || crooked(e.value)
	if odd || e.value[0] == '~' && !strings.HasPrefix(e.value, "~/") || p.own(resolved(path)) {
		return "", changing(e)
	}
	err := p.include(e, path)
	return path, err
}

// inclusion is one step on the way to an included file.
type inclusion struct {
	entry
	passes string
}

// include notes a file that is included, and all that is passed on the way
// there: none of it may be what git can write.
func (p *preparation) include(e entry, path string) error {
	err := p.passing(e.file, path, filepath.Dir(e.file), false)
	if err != nil {
		return err
	}
	for _, s := range p.ways[len(p.ways)-1].steps {
		p.includes = append(p.includes, inclusion{e, s.path})
	}
	return nil
}

func changing(e entry) error {
	return refusal(policy.Denied, "git_config", e.key,
		fmt.Sprintf("cannot run git: the repository's configuration %q includes %q, which may become another one while git works", e.file, e.value), unset(e))
}

// leadsBack reports whether a core.worktree is what git itself writes for a
// submodule: it names the checkout whose .git file names this directory, or,
// while nothing is checked out, a place in one of the work trees.
func (p *preparation) leadsBack(e entry) bool {
	if base := filepath.Base(e.file); base != "config" && base != "config.worktree" {
		return false
	}
	gitDir := resolved(filepath.Dir(e.file))
	tree := e.value
	if crooked(tree) {
		return false
	}
	if !filepath.IsAbs(tree) {
		tree = filepath.Join(gitDir, tree)
	}
	if p.passing(e.file, tree, gitDir, true) != nil {
		return false
	}
	tree = resolved(tree)
	if named(tree) || !p.gitDirs[gitDir] {
		return false
	}
	target, err := pointer(filepath.Join(tree, ".git"))
	if errors.Is(err, fs.ErrNotExist) {
		within := func(top string) bool { return tree != top && beneath(tree, top) }
		if _, seen := p.gitDirOf[tree]; !seen { // git looks there for what the index names
			p.loose[tree] = true
			p.tree(tree, gitDir)
		}
		return slices.ContainsFunc(p.trees, within)
	}
	if err != nil || resolved(target) != gitDir {
		return false
	}
	p.tree(tree, gitDir) // wherever it is
	return true
}

// withSettings is the environment with the overrides, after those that the
// operator has there already.
func (p *preparation) withSettings() []string {
	settings := slices.Concat(always(), p.transports(), p.submodules())
	set := map[string]bool{}
	for _, s := range settings {
		set[strings.ToLower(s.key)] = true
	}
	lists := false
	for _, key := range p.found {
		r, _ := remedyFor(key)
		switch value, ok := p.operators[key]; {
		case set[strings.ToLower(key)]:
		case r.section == "credential":
			lists = true
		case ok:
			settings = append(settings, setting{key, p.meant(r, value)})
		default:
			settings = append(settings, setting{key, p.standIn(r, key)})
		}
	}
	if lists { // an empty one begins the list anew, for every address
		settings = append(append(settings, setting{"credential.helper", ""}), p.helpers...)
	}
	return override(p.env, settings)
}

// transports are the ways to another repository: the operator's own, or the
// usual ones.
func (p *preparation) transports() []setting {
	var out []setting
	for _, s := range unlessOwn() {
		if value, ok := p.operators[s.key]; ok {
			s.value = value
		}
		out = append(out, s)
	}
	_, general := p.operators["protocol.allow"]
	for _, name := range []string{"http", "https", "ssh"} {
		key := "protocol." + name + ".allow"
		value, ok := p.operators[key]
		switch {
		case ok:
			out = append(out, setting{key, value})
		case !general:
			out = append(out, setting{key, "always"})
		}
	}
	return out
}

// submodules has differences of submodules shown as two hashes: the long form
// runs another git in the submodule.
func (p *preparation) submodules() []setting {
	if p.operators["diff.submodule"] == "log" {
		return []setting{{"diff.submodule", "log"}}
	}
	return []setting{{"diff.submodule", "short"}}
}

// lookup finds a variable in an environment: the last one counts.
func lookup(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// unique leaves of each variable the first, which is what getenv(3) answers: a
// shell or a program of ours could see another one than git will.
func unique(env []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, ok := strings.Cut(e, "=")
		twice := !ok || seen[name]
		seen[name] = true
		return twice
	})
}

// isStale reports whether a variable is a numbered setting which isn't one of
// the first n.
func isStale(e string, n int) bool {
	name, _, _ := strings.Cut(e, "=")
	for _, prefix := range []string{"GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"} {
		if number, ok := strings.CutPrefix(name, prefix); ok {
			i, err := strconv.Atoi(number)
			return err != nil || i < 0 || i >= n || strconv.Itoa(i) != number
		}
	}
	return false
}

// override adds settings to an environment. What stands there beyond its
// count is nobody's, and would be taken for ours.
func override(env []string, settings []setting) []string {
	n, _ := strconv.Atoi(lookup(env, "GIT_CONFIG_COUNT"))
	n = max(n, 0)
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "GIT_CONFIG_COUNT=") || isStale(e, n) })
	for i, s := range settings {
		at := strconv.Itoa(n + i)
		env = append(env, "GIT_CONFIG_KEY_"+at+"="+s.key, "GIT_CONFIG_VALUE_"+at+"="+s.value)
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n+len(settings)))
}
