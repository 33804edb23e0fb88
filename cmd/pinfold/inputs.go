package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pinfold/container/image"
	"pinfold/egress"
	"pinfold/guard"
	"pinfold/policy"
)

// Where a policy names files that are used outside of the boundary.
const (
	dockerfileField = "container.build.dockerfile"
	upstreamField   = "network.upstream"
)

// inputs are the files that a policy names and that the next launch under it
// uses outside of the boundary: what its image is built from, and where its
// parent proxy stands. What a placeholder without a value leads to is for
// whoever uses it to refuse.
func inputs(pol *policy.Policy, vars policy.Vars) []guard.Kept {
	var kept []guard.Kept
	if file, ok := egress.UpstreamFile(pol.Network.Upstream); ok && !isDescriptor(policy.Source{File: file}) {
		kept = append(kept, guard.Kept{Path: file, Name: upstreamField, Kind: guard.File})
	}
	file, err := dockerfileOf(pol, vars)
	if file == "" || err != nil {
		return kept
	}
	kept = append(kept, guard.Kept{Path: file, Name: dockerfileField, Kind: guard.File})
	if file, err = filepath.EvalSymlinks(file); err == nil {
		kept = append(kept, guard.Kept{
			Path: filepath.Dir(file), Name: dockerfileField, Kind: guard.Dir,
			LeftOut: func(path string) (bool, error) { return image.LeavesOut(file, path) },
		})
	}
	return kept
}

// dockerfileOf is the Dockerfile that a policy names, "" where it names none.
func dockerfileOf(pol *policy.Policy, vars policy.Vars) (string, error) {
	if b := pol.Container.Build; b != nil && b.Dockerfile != nil {
		return policy.Expand(*b.Dockerfile, vars)
	}
	return "", nil
}

// ownInputs are the inputs of the operator's own policy, which count whatever
// policy this launch has, as the policy itself does. What it takes from any
// workspace, or from a launch, is of those alone that it is used for.
func ownInputs(vars policy.Vars) []guard.Kept {
	var kept []guard.Kept
	for _, dir := range settingsDirs() {
		own := filepath.Join(dir, "policy.json")
		if !isFile(own) {
			continue
		}
		if pol, err := policy.Load(own); err == nil {
			kept = append(kept, inputs(pol, policy.Vars{Home: vars.Home})...)
		}
	}
	return kept
}

// pinInputs are the digests of what a launch under a trusted policy would use:
// the content address of what its image is built from, and the parent proxy's
// file where it lies with the policy. (Elsewhere it is the operator's own, and
// may hold a password that is changed each day.)
func pinInputs(ctx context.Context, pol *policy.Policy, file string, vars policy.Vars) (map[string]string, error) {
	out := map[string]string{}
	name, sum, err := upstreamDigest(pol, file)
	if name != "" {
		out[name] = sum
	}
	name, dockerfile, buildErr := buildInput(pol, vars)
	if name == "" || err != nil || buildErr != nil {
		return out, errors.Join(err, buildErr)
	}
	source, err := image.Lower(pol.Container.Build, dockerfile, nil)
	if err != nil {
		return nil, err
	}
	out[name], err = source.Digest(ctx)
	return out, err
}

// upstreamDigest is the name of the parent proxy's file among a policy's
// inputs, "" where none is pinned, and its digest.
func upstreamDigest(pol *policy.Policy, file string) (name, sum string, err error) {
	from, ok := egress.UpstreamFile(pol.Network.Upstream)
	if !ok || !within(canonical(from), filepath.Dir(file)) {
		return "", "", nil
	}
	text, err := readBounded(from, maxFile)
	if err != nil {
		return "", "", fmt.Errorf("cannot read %s: %w", upstreamField, err)
	}
	digest := sha256.Sum256(text)
	return upstreamField + " " + from, hex.EncodeToString(digest[:]), nil
}

// buildInput is the name of a policy's Dockerfile among its inputs, "" where
// it has none, and the file.
func buildInput(pol *policy.Policy, vars policy.Vars) (name, dockerfile string, err error) {
	dockerfile, err = dockerfileOf(pol, vars)
	if dockerfile == "" || err != nil {
		return "", "", err
	}
	dockerfile = canonical(dockerfile)
	return dockerfileField + " " + dockerfile, dockerfile, nil
}

// useInputs compares the inputs of a policy with its pin, and says what isn't
// what was trusted, "" for nothing. What an image is built from is compared by
// whoever builds it, with the very content that would be sent.
func (t *pin) useInputs(pol *policy.Policy, vars policy.Vars) (string, error) {
	name, sum, err := upstreamDigest(pol, t.File)
	if err != nil {
		return "", err
	}
	if name != "" && t.Inputs[name] != sum {
		return t.unlike(name), nil
	}
	if name, _, err = buildInput(pol, vars); name == "" || err != nil {
		return "", err
	}
	if pol.Container.Build.Trusted = t.Inputs[name]; pol.Container.Build.Trusted == "" {
		return t.unlike(name), nil
	}
	return "", nil
}

func (t *pin) unlike(name string) string {
	if len(t.Inputs) == 0 {
		return fmt.Sprintf("it was trusted without what it uses besides (%s)", name)
	}
	return fmt.Sprintf("what it uses (%s) isn't what was trusted", name)
}

// within reports a path in a directory.
func within(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// trustVars are what placeholders stand for in what is pinned along with a
// policy: a directory by its canonical path, so that a pin can be compared.
func trustVars(vars policy.Vars) policy.Vars {
	for _, dir := range []*string{&vars.Workspace, &vars.Home} {
		if *dir != "" {
			*dir = canonical(*dir)
		}
	}
	return vars
}

// hereVars are the placeholders of a launch in a directory that is given
// nothing by flags.
func hereVars(dir string) policy.Vars {
	home, err := homeDir("")
	if err != nil {
		home = "" // what needs it says so
	}
	return trustVars(policy.Vars{Workspace: dir, Home: home})
}

// sameFile reports two names of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
