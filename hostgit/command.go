package hostgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pinfold/policy"
)

// Command is what to execute.
type Command struct {
	Path string
	Argv []string
	Env  []string
}

// maxNested bounds the repositories that are looked into.
const maxNested = 200

// Prepare answers how to run git with these arguments, in the directory dir,
// so that nothing is executed which the repositories there name. It runs git
// to list configuration and index, which executes nothing.
func Prepare(ctx context.Context, dir string, args, env []string) (*Command, error) {
	path, err := exec.LookPath("git")
	if err != nil || !filepath.IsAbs(path) {
		return nil, refusal(policy.Unavailable, "git_missing", "git", "cannot find git on the PATH", "install git")
	}
	p := &preparation{ctx: ctx, git: path, env: clean(env), seen: map[string]bool{}, own: map[string]string{}}
	where, rest := split(args)
	if err := p.look(dir, location(where)); err != nil {
		return nil, err
	}
	if len(rest) > 0 && p.aliased(rest[0]) {
		return nil, refusal(policy.Denied, "git_alias", rest[0],
			fmt.Sprintf("cannot run git %s: it is an alias of the repository's own", rest[0]), "use git's own command, or define the alias yourself")
	}
	return &Command{Path: path, Argv: append([]string{"git"}, slices.Concat(where, plainly(rest))...), Env: p.withSettings()}, nil
}

func refusal(r policy.Reason, code, subject, why, fix string) error {
	return &policy.Refusal{Reason: r, Code: code, Subject: subject, Why: why, Fix: fix}
}

// clean leaves out what would have git take a repository's word in another
// way, or override ours.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "GIT_ALLOW_PROTOCOL" || name == "GIT_PROTOCOL_FROM_USER" || name == "GIT_TEMPLATE_DIR"
	})
}

// valued are git's own options that take the next argument.
var valued = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--exec-path"} //nolint:gochecknoglobals // a table

// split parts git's own options from the command and its arguments.
func split(args []string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[:i], args[i:]
		}
		if slices.Contains(valued, args[i]) {
			i++
		}
	}
	return args, nil
}

// location are those of git's own options that say which repository is meant.
func location(own []string) []string {
	var out []string
	for i := 0; i < len(own); i++ {
		name, _, _ := strings.Cut(own[i], "=")
		named := slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--bare"}, name)
		if named {
			out = append(out, own[i])
		}
		if slices.Contains(valued, own[i]) {
			if i++; named && i < len(own) {
				out = append(out, own[i])
			}
		}
	}
	return out
}

// plainly has the commands that show differences leave external programs out,
// as far as they have an option for it: an empty one would make them fail.
func plainly(rest []string) []string {
	if len(rest) == 0 || !slices.Contains([]string{"diff", "log", "show", "whatchanged", "format-patch"}, rest[0]) {
		return rest
	}
	return append([]string{rest[0], "--no-ext-diff"}, rest[1:]...)
}

// preparation collects what must be overridden.
type preparation struct {
	ctx  context.Context
	git  string
	env  []string
	seen map[string]bool
	// found are keys that repositories set; own is what the operator's
	// configuration sets, by key.
	found []string
	own   map[string]string
}

// look lists a repository's configuration, and looks into those that its index
// leads to.
func (p *preparation) look(dir string, where []string) error {
	top, err := p.output(dir, where, "rev-parse", "--show-toplevel")
	if err != nil {
		top = nil // not in a checkout: a bare repository, or none at all
	}
	if len(p.seen) > maxNested {
		return refusal(policy.Denied, "git_nested", dir, "cannot look into all repositories that this one leads to: there are too many", "run git in a directory below")
	}
	list, err := p.output(dir, where, "config", "--list", "-z", "--show-scope")
	if err != nil {
		return refusal(policy.Denied, "git_config", dir, fmt.Sprintf("cannot list the configuration: %v", err), "see whether .git/config is what it should be")
	}
	if err := p.take(list, dir); err != nil {
		return err
	}
	root := strings.TrimSuffix(string(top), "\n")
	if root == "" || p.seen[root] {
		return nil
	}
	p.seen[root] = true
	index, err := p.output(dir, where, "ls-files", "-s", "-z", "--full-name", ":/")
	if err != nil {
		return refusal(policy.Denied, "git_index", dir, fmt.Sprintf("cannot list the index: %v", err), "see whether .git/index is what it should be")
	}
	return p.nested(root, index)
}

// nested looks into the checkouts that gitlinks of an index name.
func (p *preparation) nested(root string, index []byte) error {
	for entry := range bytes.SplitSeq(index, []byte{0}) {
		mode, name, ok := strings.Cut(string(entry), "\t")
		if !ok || !strings.HasPrefix(mode, "160000 ") {
			continue
		}
		dir := filepath.Join(root, name)
		if inside, err := p.output(dir, nil, "rev-parse", "--show-toplevel"); err != nil || strings.TrimSuffix(string(inside), "\n") == root {
			continue // no repository stands there
		}
		if err := p.look(dir, nil); err != nil {
			return err
		}
	}
	return nil
}

// take sorts what "git config --list -z --show-scope" prints: scope, then key,
// newline, value.
func (p *preparation) take(list []byte, dir string) error {
	fields := bytes.Split(bytes.TrimSuffix(list, []byte{0}), []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, _ := strings.Cut(string(fields[i+1]), "\n")
		switch scope := string(fields[i]); scope {
		case "local", "worktree":
		default:
			p.own[key] = value
			continue
		}
		r, dangerous := remedyFor(key)
		switch {
		case dangerous && r.refuse:
			return refusal(policy.Denied, "git_config", key, fmt.Sprintf("cannot run git: the repository %q sets %s", dir, key), "look at it, and unset it: git config --unset "+key)
		case dangerous && !slices.Contains(p.found, key):
			p.found = append(p.found, key)
		}
	}
	return nil
}

// aliased reports whether a command would be an alias of the repository's.
func (p *preparation) aliased(command string) bool {
	for _, key := range p.found {
		if name, ok := strings.CutPrefix(key, "alias."); ok && strings.EqualFold(name, command) && p.own[key] == "" {
			return true
		}
	}
	return false
}

// withSettings is the environment with the overrides, after those that the
// operator has there already.
func (p *preparation) withSettings() []string {
	settings := always()
	for _, key := range p.found {
		r, _ := remedyFor(key)
		value, ok := p.own[key]
		if !ok {
			value = r.value
		}
		if r.section == "credential" {
			settings = append(settings, setting{key, ""}) // it is a list: begin anew
		}
		settings = append(settings, setting{key, value})
	}
	return override(p.env, settings)
}

// override adds settings to an environment.
func override(env []string, settings []setting) []string {
	n := 0
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(v)
		}
	}
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, "GIT_CONFIG_COUNT=") })
	for i, s := range settings {
		at := strconv.Itoa(n + i)
		env = append(env, "GIT_CONFIG_KEY_"+at+"="+s.key, "GIT_CONFIG_VALUE_"+at+"="+s.value)
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n+len(settings)))
}

// output runs git to tell something, with what is always set.
func (p *preparation) output(dir string, where []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(p.ctx, p.git, append(slices.Clone(where), args...)...)
	cmd.Dir, cmd.Env = dir, override(p.env, always())
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
