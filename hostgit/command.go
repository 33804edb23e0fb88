package hostgit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold/policy"
)

// Command is what to execute.
type Command struct {
	Path string
	Argv []string
	Env  []string
	// Places are the work trees, git directories and files that git obeys.
	// Whoever can write there while it runs can have it execute something.
	Places []string
}

// patience bounds git's answers, which come within milliseconds.
const patience = 2 * time.Minute

// Prepare answers how to run git with these arguments, in the directory dir,
// so that nothing is executed which the repositories there name. It runs git
// to list configuration and index, which executes nothing.
func Prepare(ctx context.Context, dir string, args, env []string) (*Command, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	env = unique(env)
	own, rest := split(args)
	trees := untrusted(dir, own, env)
	git, path, err := locate(lookup(env, "PATH"), trees)
	if err != nil {
		return nil, err
	}
	if parts := lookup(env, "GIT_EXEC_PATH"); parts != "" && (!filepath.IsAbs(parts) || !usable(parts, within(trees))) {
		return nil, refusal(policy.Unavailable, "git_untrusted", parts, fmt.Sprintf("cannot use the parts of git in %q: others may write there", parts), "unset GIT_EXEC_PATH")
	}
	p := newPreparation(ctx, git, dir, append(clean(env), "PATH="+path))
	p.where = located(own)
	p.starts = places(dir, own, env)
	p.entersWorktrees = len(rest) > 0 && (rest[0] == "worktree" || !slices.Contains(strings.Fields(stays), rest[0]))
	if err := p.prepare(rest, lookup(env, "GIT_ALLOW_PROTOCOL")); err != nil {
		return nil, err
	}
	return &Command{Path: git, Argv: append([]string{"git"}, slices.Concat(own, plainly(rest))...), Env: p.withSettings(), Places: p.places()}, nil
}

// stays are commands that don't enter other worktrees than the one they are
// run in; an alias may.
const stays = "status diff log show add commit stash fetch push pull checkout switch restore branch merge rebase reset blame grep rev-parse ls-files clone"

// preparation collects what must be overridden.
type preparation struct {
	ctx    context.Context
	git    string
	dir    string
	env    []string
	where  []string // git's own options that say which repository and configuration are meant
	starts []string // where git begins to look for a repository
	// operators is what the operator's own configuration sets, by key; helpers
	// are its credential helpers, in order.
	operators map[string]string
	helpers   []setting
	// operatorsFiles are where it is, with a key of each.
	operatorsFiles map[string]string

	gitDir   string
	tops     []string          // work trees, the one that git works in first
	trees    []string          // those that surely belong to this repository
	gitDirOf map[string]string // by work tree
	gitDirs  map[string]bool
	loose    map[string]bool // work trees without a .git, which a commit may put something in the place of

	files    []string // of configuration
	listed   map[string]bool
	includes []inclusion
	ways     []way
	found    []string // keys that repositories set, to be overridden

	modulesSeen     map[string]bool
	entered, walked int
	entersWorktrees bool
	commands        []string // git's
	expanded        []string // the command, aliases of the operator's replaced
}

func newPreparation(ctx context.Context, git, dir string, env []string) *preparation {
	return &preparation{
		ctx: ctx, git: git, dir: dir, env: env, operators: map[string]string{}, operatorsFiles: map[string]string{}, loose: map[string]bool{}, gitDirOf: map[string]string{},
		gitDirs: map[string]bool{}, listed: map[string]bool{}, modulesSeen: map[string]bool{},
	}
}

func (p *preparation) prepare(rest []string, allowed string) error {
	if err := p.isNew(""); err != nil {
		return err
	}
	if err := p.readable(); err != nil {
		return err
	}
	list, err := p.run(p.dir, p.env, slices.Concat(p.where, []string{"config", "--list", "-z", "--show-scope", "--show-origin"})...)
	if err != nil {
		return refusal(policy.Denied, "git_config", p.dir, fmt.Sprintf("cannot list the configuration: %v", err), "see whether .git/config is what it should be")
	}
	p.take(list)
	if allowed != "" { // git(1): it replaces all that the configuration says
		p.allow(strings.Split(allowed, ":"))
	}
	if err := p.look(); err != nil {
		return err
	}
	if err := p.command(rest); err != nil {
		return err
	}
	return p.unfinished()
}

// allow has the transports that a variable of the operator's lists.
func (p *preparation) allow(names []string) {
	maps.DeleteFunc(p.operators, func(key, _ string) bool {
		section, name := parts(key)
		return section == "protocol" && name == "allow"
	})
	p.operators["protocol.allow"] = "never"
	for _, name := range names {
		p.operators["protocol."+name+".allow"] = "always"
	}
}

// isNew refuses a git that doesn't hand the settings on: GIT_CONFIG_COUNT came
// with 2.31, and until 2.39 git submodule was a shell script that dropped it,
// and git bisect one that evaluated its state.
func (p *preparation) isNew(command string) error {
	out, err := p.run("/", p.env, "version")
	var major, minor int
	if err == nil {
		_, err = fmt.Sscanf(string(out), "git version %d.%d", &major, &minor)
	}
	need := 31
	if command == "submodule" || command == "bisect" {
		need = 39
	}
	if err != nil || major < 2 || major == 2 && minor < need {
		return refusal(policy.Unavailable, "git_old", p.git, fmt.Sprintf("cannot use %q, which says %q", p.git, strings.TrimSpace(string(out))), "install git 2."+strconv.Itoa(need)+" or newer")
	}
	return nil
}

// places are what must not change meanwhile.
func (p *preparation) places() []string {
	out := append(slices.Clone(p.tops), slices.Sorted(maps.Keys(p.gitDirs))...)
	passed := map[string]bool{}
	for _, w := range p.ways {
		for i, s := range w.steps {
			if !s.plain || i == len(w.steps)-1 {
				passed[s.path] = true
			}
		}
	}
	out = append(out, slices.Sorted(maps.Keys(passed))...)
	if len(out) == 0 {
		for _, start := range p.starts {
			out = append(out, resolved(start))
		}
	}
	for _, name := range made(p.expanded) {
		out = append(out, resolved(join(p.starts[len(p.starts)-1], name)))
	}
	return out
}

// made are the words of a command that may name a repository or a work tree to
// be made.
func made(rest []string) []string {
	if len(rest) == 0 || !slices.Contains([]string{"clone", "init", "worktree", "submodule"}, rest[0]) {
		return nil
	}
	var out []string
	for _, w := range rest[1:] {
		if _, value, ok := strings.Cut(w, "="); ok && strings.HasPrefix(w, "--") {
			w = value
		}
		if w != "" && !strings.HasPrefix(w, "-") {
			out = append(out, w)
		}
	}
	return out
}

// readable refuses a repository of which git would read something that isn't
// a file, before it is asked anything.
func (p *preparation) readable() error {
	for _, start := range p.starts {
		for _, dir := range nearest(start) {
			if path := odd(dir); path != "" {
				return notAFile(path)
			}
		}
	}
	return nil
}

func notAFile(path string) error {
	return refusal(policy.Denied, "git_repository", path, fmt.Sprintf("cannot use the repository: %q isn't a file, and git would wait for what it says", path), "remove it")
}

func refusal(r policy.Reason, code, subject, why, fix string) error {
	return &policy.Refusal{Reason: r, Code: code, Subject: subject, Why: why, Fix: fix}
}

// clean leaves out what would have git take a repository's word in another
// way, or override ours.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "GIT_ALLOW_PROTOCOL" || name == "GIT_TEMPLATE_DIR" || name == "PATH"
	})
}

// ask runs git in the repository to tell one line.
func (p *preparation) ask(args ...string) (string, error) {
	out, err := p.run(p.dir, override(p.env, always()), slices.Concat(p.where, args)...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// run has git tell something.
func (p *preparation) run(dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(p.ctx, p.git, args...)
	cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && p.ctx.Err() == nil {
		return nil, errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
