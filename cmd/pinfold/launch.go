package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/container/launch"
	"pinfold/guard"
	"pinfold/policy"
)

// launchFlags are what wrap, plan and explain share: the policy and the
// request of one launch, as the command line says them.
type launchFlags struct {
	policy, tier, needs           string
	workspace, chdir              string
	runDir, runsDir, toolbelt     string
	home                          string
	record                        string
	execution, segment            string
	user, maxEntries, cgroup      string
	require, protect, share, envs []string
	system                        systemFlags
}

func (f *launchFlags) flags() []cli.Flag {
	return append([]cli.Flag{
		one("policy", "grant what the policy in `FILE` says", &f.policy),
		one("tier", "kind of boundary: `process|container`", &f.tier),
		one("needs", "refuse unless the policy grants what `FILE` lists", &f.needs),
		many("require", "refuse unless the layer `NAME` is in force", &f.require),
		one("workspace", "{workspace} is `DIR`; 'tmp' makes a throw-away one (default: the current directory)", &f.workspace),
		one("chdir", "start the command in `DIR`", &f.chdir),
		one("run-dir", "{run} is `DIR`, always writable (default: a fresh one)", &f.runDir),
		one("runs-dir", "refuse a run directory that isn't beneath `DIR`", &f.runsDir),
		one("toolbelt", "{toolbelt} is the unix socket `SOCKET`", &f.toolbelt),
		one("home", "{home} is `DIR`", &f.home),
		many("protect", "no grant may reach `PATH`", &f.protect),
		many("share", "read-only exception to --protect: `PATH`", &f.share),
		one("execution", "label the launch with `ID`", &f.execution),
		one("segment", "label the launch with `ID`", &f.segment),
		one("record", "keep plan and outcome in `DIR` (default: under the state directory)", &f.record),
		many("env", "give the command the variable `NAME[=VALUE]`", &f.envs),
		one("user", "run the whole launch as user `NAME` (root only)", &f.user),
		one("cgroup", "make the cgroup for limits beneath the one at `PATH`", &f.cgroup),
		one("max-entries", "walk at most `N` directory entries for hard links", &f.maxEntries),
	}, f.system.flags()...)
}

// prepared is a launch on its way to the guard.
type prepared struct {
	program   *program
	policy    *policy.Policy
	request   guard.Request
	protected []string
	// fresh are directories that were made for this launch alone.
	fresh  []bwrap.Fresh
	locks  []*os.File
	cgroup string // --cgroup
	// plainStub: the stub needs a file inside.
	plainStub bool
	// whole: bubblewrap has to mount everything.
	whole bool
	// dirs are a container's, as long as they are nobody else's to remove.
	dirs launch.Dirs
	// recordMade: --record named a directory that wasn't there, and is now.
	recordMade bool
	newState   *newState
	// usualState is the state directory of who names none, if there is one.
	usualState string
	umask      int // the caller's
	// outcome takes the time that each phase took; nil where nobody asks.
	outcome *outcome
	system  systemFlags
}

// prepare turns the flags into what the guard takes. Whatever it made is in
// the result, for the caller to remove, even where it fails.
func (p *program) prepare(f *launchFlags, argv []string) (*prepared, error) {
	l := &prepared{program: p, cgroup: f.cgroup, system: f.system, umask: ownUmask()}
	if f.user != "" {
		if err := p.becomeUser(f.user); err != nil {
			return l, err
		}
	}
	if err := f.checkTier(); err != nil {
		return l, err
	}
	if err := p.loadSettings(); err != nil {
		return l, err
	}
	var state string
	var err error
	if l.newState, state, err = p.makeState(); err != nil {
		return l, err
	}
	if err := l.fillRequest(f, argv, state); err != nil {
		return l, err
	}
	l.makeRecord()
	if err := l.choosePolicy(p, f, state); err != nil {
		return l, err
	}
	l.request.Needs, err = loadNeeds(f.needs, l.vars())
	return l, err
}

// vars are what the placeholders of a needs file stand for.
func (l *prepared) vars() policy.Vars {
	r := l.request
	return policy.Vars{Workspace: r.Workspace, Run: r.RunDir, Toolbelt: r.Toolbelt, Home: r.Home}
}

func (l *prepared) choosePolicy(p *program, f *launchFlags, state string) error {
	pol, file, err := p.findPolicy(f.policy, l.vars(), state)
	if err != nil {
		return err
	}
	l.request.Kept = slices.Concat(itself(), inputs(pol, l.vars()), ownInputs(l.vars()))
	pol.Require = append(pol.Require, f.require...)
	if err := chooseTier(pol, f.tier); err != nil {
		return err
	}
	if err := p.disableContainer(pol); err != nil {
		return err
	}
	if err := l.checkCgroup(pol.Tier); err != nil {
		return err
	}
	l.policy, l.request.PolicyFile = pol, file
	pol.Limits, err = p.limits(pol.Limits)
	return err
}

// chooseTier applies --tier where the policy leaves it open. The policy is the
// grant: a flag doesn't choose another boundary than it names.
func chooseTier(pol *policy.Policy, tier string) error {
	if tier == "" || pol.Tier == policy.Tier(tier) {
		return nil
	}
	if pol.Tier != "" {
		return &policy.Refusal{
			Reason: policy.Denied, Code: "tier_conflict", Subject: "--tier", Rule: "tier",
			Why: fmt.Sprintf("cannot use --tier %s: the policy says %q", tier, pol.Tier),
			Fix: "leave the flag out, or change the policy",
		}
	}
	pol.Tier = policy.Tier(tier)
	return nil
}

// disableVariable set to 1 runs in the process tier what asks for a container.
// It always wins.
const disableVariable = "PINFOLD_DISABLE_CONTAINER"

// disableContainer applies that switch, and says so.
func (p *program) disableContainer(pol *policy.Policy) error {
	if pol.Tier != policy.TierContainer || os.Getenv(disableVariable) != "1" {
		return nil
	}
	if len(pol.Container.Mounts) > 0 {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "field_unavailable", Subject: "container.mounts", Rule: "container.mounts",
			Why: "cannot enforce container.mounts: " + disableVariable + "=1 runs this in the process tier, which mounts nothing at other paths",
			Fix: "unset " + disableVariable + ", or grant the directories at their own paths",
		}
	}
	pol.Tier, pol.Container = policy.TierProcess, policy.Container{}
	pol.Given = maps.Clone(pol.Given)
	maps.DeleteFunc(pol.Given, func(field string, _ policy.Position) bool {
		return field == "tier" || field == "container" || strings.HasPrefix(field, "container.")
	})
	p.notice("running in the process tier: %s=1 is set", disableVariable)
	return nil
}

// checkCgroup refuses --cgroup where the limits are an engine's to keep, or
// rlimits alone.
func (l *prepared) checkCgroup(tier policy.Tier) error {
	if l.cgroup == "" || tier != policy.TierContainer && runtime.GOOS == "linux" {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "field_unavailable", Subject: "--cgroup", Rule: "limits",
		Why: fmt.Sprintf("cannot use --cgroup %q: only the process tier on Linux makes a cgroup of its own", l.cgroup),
		Fix: "leave it out: a container's limits are the engine's to keep",
	}
}

func (f *launchFlags) checkTier() error {
	switch policy.Tier(f.tier) {
	case "", policy.TierProcess, policy.TierContainer:
		return nil
	}
	return &usageError{
		why: fmt.Sprintf("cannot use tier %q: there is no such tier", f.tier),
		fix: "use --tier process or --tier container",
	}
}

// fillRequest sets everything but the policy.
func (l *prepared) fillRequest(f *launchFlags, argv []string, state string) error {
	cwd, cwdErr := os.Getwd()
	at := func(path string) string { return absolute(cwd, path) }
	home, err := homeDir(f.home)
	if err != nil {
		return err
	}
	l.request = guard.Request{
		Argv: argv, Dir: at(f.chdir), CallerDir: cwd,
		Env: os.Environ(), EnvAdd: f.envs,
		RunDir: at(f.runDir), RunsDir: at(f.runsDir), Toolbelt: at(f.toolbelt),
		Home: at(home), HomeNamed: f.home != "",
		Record: at(f.record), State: state,
		Runtime: os.Getenv("XDG_RUNTIME_DIR"), SSHAuthSock: os.Getenv("SSH_AUTH_SOCK"),
		Settings: settingsDirs(), SettingsFiles: settingsFiles(),
		Owner: guard.Owner{Execution: f.execution, Segment: f.segment},
		Share: each(f.share, at),
		UID:   os.Geteuid(), GID: os.Getegid(),
	}
	if err := cmp.Or(checkLabel("--execution", f.execution), checkLabel("--segment", f.segment)); err != nil {
		return err
	}
	l.protected = each(f.protect, at)
	if l.usualState = usualState(); l.usualState != "" && l.usualState != state {
		l.protected = append(l.protected, l.usualState)
		l.protected = append(l.protected, linksIn(l.usualState)...)
	}
	l.protected = append(l.protected, linksIn(state)...)
	if l.request.MaxEntries, err = positive("--max-entries", f.maxEntries); err != nil {
		return err
	}
	if f.workspace == "" && cwdErr != nil {
		return noDirectory(cwdErr)
	}
	if err := l.chooseWorkspace(f.workspace, cwd, state); err != nil {
		return err
	}
	return l.chooseRunDir(state)
}

// chooseRunDir makes a run directory where none was named.
func (l *prepared) chooseRunDir(state string) error {
	if l.request.RunDir != "" {
		return nil
	}
	dir, err := l.makeFresh(state, freshRun)
	if err != nil {
		return err
	}
	l.request.RunDir, l.request.RunMade = dir, true
	return nil
}

func (l *prepared) chooseWorkspace(given, cwd, state string) error {
	switch given {
	case "":
		l.request.Workspace = cwd
	case "tmp":
		dir, err := l.makeFresh(state, freshWorkspace)
		if err != nil {
			return err
		}
		// Nothing else tells the command where its workspace is, so it starts
		// there.
		l.request.Workspace, l.request.WorkspaceMade, l.request.CallerDir = dir, true, dir
	default:
		l.request.Workspace = absolute(cwd, given)
	}
	return nil
}

func noDirectory(err error) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "workspace_missing", Err: err,
		Why: fmt.Sprintf("cannot use the current directory as the workspace: %v", cause(err)),
		Fix: "name one with --workspace DIR, or start pinfold in a directory that exists",
	}
}

// absolute makes a path of the command line absolute and changes nothing
// else: "a/.." is not "." where a is a symbolic link, so it isn't cleaned.
func absolute(cwd, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return cwd + "/" + path
}

func each(in []string, f func(string) string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, f(s))
	}
	return out
}

// maxLabel bounds a label: an engine's are made of it, and lines that people
// read.
const maxLabel = 255

// checkLabel refuses a label that no listing could show on one line.
func checkLabel(flag, s string) error {
	var why string
	switch {
	case len(s) > maxLabel:
		why = fmt.Sprintf("it has %d bytes, and %d is the most", len(s), maxLabel)
	case oneLine(s) != s:
		why = "it holds what can't be printed, such as a line break"
	default:
		return nil
	}
	return &usageError{why: fmt.Sprintf("cannot use %s %.40q: %s", flag, s, why), fix: "label launches with a short name or number"}
}

// positive reads a count; "" is zero, which means the default.
func positive(flag, s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, &usageError{
			why: fmt.Sprintf("cannot use %s %q: it isn't a whole number above zero", flag, s),
			fix: fmt.Sprintf("give %s a number such as 1000000", flag),
		}
	}
	return n, nil
}
