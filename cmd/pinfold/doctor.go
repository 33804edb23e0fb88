package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"pinfold/doctor"
	"pinfold/policy"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	json, fix    bool
	policy, tier string
}

func (p *program) doctorCommand() *cli.Command {
	f := &doctorFlags{}
	return &cli.Command{
		Name:  "doctor",
		Usage: "say whether this machine can hold a process, and what to type if not",
		Flags: []cli.Flag{
			yes("json", "print the rows as one JSON object", &f.json),
			yes("fix", "print only the commands that help", &f.fix),
			one("policy", "also ask whether a launch under the policy in `FILE` works from here", &f.policy),
			one("tier", "kind of boundary to ask for: `process|container`", &f.tier),
		},
		Action: func(c *cli.Context) error { return p.doctor(c, f) },
	}
}

// doctor exits 0 when the tier asked for works and 1 when it doesn't, or when
// that couldn't be told.
func (p *program) doctor(c *cli.Context, f *doctorFlags) error {
	if c.Args().Present() || f.json && f.fix {
		return &usageError{why: "cannot run doctor: it takes no arguments, and --json or --fix", fix: "see 'pinfold doctor --help'"}
	}
	checks, err := p.checks(f)
	if err != nil {
		return err
	}
	rows := doctor.Run(c.Context, p.host(), checks)
	if err := p.printRows(rows, f); err != nil {
		return err
	}
	switch doctor.Verdict(rows) {
	case doctor.Fail, doctor.Unknown:
		return exitCode(exitFailed)
	}
	return nil
}

// checks are the rows that the flags ask for: of the tier that is named, or
// else of the policy's.
func (p *program) checks(f *doctorFlags) ([]doctor.Check, error) {
	var pol *policy.Policy
	tier := policy.Tier(f.tier)
	if f.policy != "" {
		var err error
		if pol, err = policy.Load(f.policy); err != nil {
			return nil, err
		}
		if tier == "" {
			tier = pol.Tier
		}
	}
	checks, err := p.tierChecks(tier)
	if err != nil || pol == nil {
		return checks, err
	}
	if tier != policy.TierContainer { // whose requirements its own launch asks for
		checks = append(checks, doctor.Requirements(pol.Require)...)
	}
	return append(checks, doctor.LaunchFile("launch: "+filepath.Base(f.policy), f.policy)), nil
}

func (p *program) tierChecks(tier policy.Tier) ([]doctor.Check, error) {
	switch tier {
	case "", policy.TierProcess:
		return systemChecks(), nil
	case policy.TierContainer:
		choice, err := p.engineChoice()
		return doctor.ContainerChecks(choice), err
	}
	return nil, &usageError{why: fmt.Sprintf("cannot ask for tier %q: there is no such tier", tier), fix: "use --tier process or --tier container"}
}

func (p *program) printRows(rows []doctor.Result, f *doctorFlags) error {
	switch {
	case f.json:
		return doctor.JSON(p.Out, rows)
	case f.fix:
		return doctor.Fixes(p.Out, rows)
	}
	colour := term.IsTerminal(int(p.Out.Fd())) && os.Getenv("NO_COLOR") == ""
	return doctor.Text(p.Out, rows, colour)
}

// host is this machine, with the policies found from here.
func (p *program) host() *doctor.Host {
	h := p.machine()
	h.Policies = p.policiesFound(h.State)
	return h
}

// machine is this machine. A state directory that can't be named is a row's
// business, not a reason to say nothing.
func (p *program) machine() *doctor.Host {
	state, err := p.statePath()
	if err != nil {
		state = ""
	}
	h := &doctor.Host{
		Root: os.DirFS("/"), Arch: runtime.GOARCH, UID: os.Geteuid(), State: state, Version: version(),
		Probe: p.prober(p.state), Path: filepath.SplitList(os.Getenv("PATH")),
	}
	p.askMac(h)
	return h
}

// policiesFound are the files that discovery would look at from here, the
// operator's own last.
func (p *program) policiesFound(state string) []doctor.PolicyFound {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	here := hereVars(dir)
	var found []doctor.PolicyFound
	for used := false; ; dir = filepath.Dir(dir) {
		for _, name := range discoverable {
			file := filepath.Join(dir, name)
			if _, err := os.Lstat(file); err != nil {
				continue
			}
			pol, err := p.trusted(file, state, here)
			f := doctor.PolicyFound{Path: file, Trusted: pol != nil, Used: pol != nil && !used}
			if err != nil {
				f.Err = asRefusal(err)
			}
			found = append(found, f)
			used = used || f.Used
		}
		if dir == filepath.Dir(dir) {
			return append(found, ownPolicy(used)...)
		}
	}
}

// ownPolicy is the operator's own policy, if there is one.
func ownPolicy(other bool) []doctor.PolicyFound {
	base, err := xdg("XDG_CONFIG_HOME", inConfig)
	if err != nil {
		return nil
	}
	f := doctor.PolicyFound{Path: filepath.Join(base, "pinfold", "policy.json"), Trusted: true, Used: !other}
	if _, err := os.Stat(f.Path); err != nil {
		return nil
	}
	if _, _, err = loadOwn(f.Path); err != nil {
		f.Err = asRefusal(err)
	}
	return []doctor.PolicyFound{f}
}
