package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"pinfold/policy"
)

// discoverable are the names under which a policy is found by itself.
var discoverable = []string{".pinfold.json", ".pinfold.jsonc", ".pinfold.yaml"} //nolint:gochecknoglobals // a table

func isDiscoverable(name string) bool { return slices.Contains(discoverable, name) }

// findPolicy returns the policy of a launch, and its file ("" for the
// built-in one). First hit wins: --policy; a trusted .pinfold file in the
// workspace or above; the operator's own; the built-in one. A file that lies
// in the workspace and isn't trusted is never used: whoever wrote the
// workspace wrote it too.
func (p *program) findPolicy(given string, vars policy.Vars, state string) (*policy.Policy, string, error) {
	if given != "" {
		return loadPolicy(given)
	}
	pol, file, err := p.trustedPolicy(vars, state)
	if pol != nil || err != nil {
		return pol, file, err
	}
	base, err := xdg("XDG_CONFIG_HOME", inConfig)
	if err != nil {
		return policy.BuiltIn(), "", nil //nolint:nilerr // no home: no policy of its owner's
	}
	own := filepath.Join(base, "pinfold", "policy.json")
	switch _, err := os.Stat(own); {
	case err == nil:
		return loadOwn(own)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return policy.BuiltIn(), "", nil
	default:
		return nil, "", &policy.Refusal{
			Reason: policy.Denied, Code: "policy_unreadable", Subject: own, Err: err,
			Why: fmt.Sprintf("cannot look for your policy %q: %v", own, cause(err)),
			Fix: "set HOME or XDG_CONFIG_HOME to a directory of yours, or pass --policy FILE",
		}
	}
}

func loadPolicy(file string) (*policy.Policy, string, error) {
	pol, err := policy.Load(file)
	if err != nil {
		return nil, "", err
	}
	pol.Sources = slices.DeleteFunc(pol.Sources, isDescriptor)
	abs, err := filepath.Abs(file)
	if err == nil && isDescriptor(policy.Source{File: abs}) {
		abs = ""
	}
	return pol, abs, err
}

// isDescriptor reports a file that is only a name of one of our descriptors,
// /dev/stdin or a shell's <(...): no launch after this one can be handed it,
// so nothing keeps it from being written.
func isDescriptor(s policy.Source) bool {
	for at := s.File; ; {
		target, err := os.Readlink(at)
		switch {
		case strings.HasPrefix(at, "/proc/") || strings.HasPrefix(at, "/dev/fd/"):
			return true
		case err != nil:
			return false
		case !filepath.IsAbs(target): // /dev/stdin may be fd/0
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
}

// trustedPolicy looks for a trusted file in a directory and above it. A
// directory that can't be resolved has none; the guard will say why.
func (p *program) trustedPolicy(vars policy.Vars, state string) (*policy.Policy, string, error) {
	dir, err := filepath.EvalSymlinks(vars.Workspace)
	if err != nil {
		return nil, "", nil //nolint:nilerr // see above
	}
	for noticed := false; ; dir = filepath.Dir(dir) {
		for _, name := range discoverable {
			file := filepath.Join(dir, name)
			if _, err := os.Lstat(file); err != nil {
				continue
			}
			pol, err := p.trusted(file, state, trustVars(vars))
			if pol != nil || err != nil {
				return pol, file, err
			}
			if !noticed {
				noticed = true
				p.notice("not using %s: it isn't trusted (pass it with --policy, or 'pinfold trust' it once)", file)
			}
		}
		if dir == filepath.Dir(dir) {
			return nil, "", nil
		}
	}
}

// trusted loads file if it is trusted as it stands. A file that was trusted
// and has changed refuses the launch: passing over it might grant more than
// it did. The same holds for what it would have built, or used outside.
func (p *program) trusted(file, state string, vars policy.Vars) (*policy.Policy, error) {
	t, err := readPin(state, file)
	if t == nil || err != nil {
		return nil, err
	}
	changed := "it, or a file it extends, has changed since it was trusted"
	pol, err := policy.Load(file)
	if err == nil && t.holds(pol) {
		changed, err = t.useInputs(pol, vars)
		switch {
		case err != nil:
			changed = "what it uses can't be compared with what was trusted: " + err.Error()
		case changed == "":
			return pol, nil
		}
	}
	return nil, &policy.Refusal{
		Reason: policy.Denied, Code: "policy_changed", Subject: file, Err: err,
		Why: fmt.Sprintf("cannot use policy %q: %s", file, changed),
		Fix: fmt.Sprintf("read it and run 'pinfold trust %s', or 'pinfold trust --forget %s'", file, file),
	}
}
