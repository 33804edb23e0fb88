package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pinfold/plan"
	"pinfold/policy"
	"pinfold/trusted"
)

// toolName is bubblewrap's program.
const toolName = "bwrap"

// Locate finds bubblewrap on a PATH and asks it for its version. An entry
// that the sandboxed side can write (forbidden says so of a path), that is
// relative, or that a user other than root and the caller can write is passed
// over: whoever can replace bubblewrap is outside the boundary from then on.
func Locate(ctx context.Context, path string, forbidden func(path string) bool) (plan.Tool, error) {
	found, err := search(path, forbidden)
	if err != nil {
		return plan.Tool{}, err
	}
	return identify(ctx, found)
}

// search finds bubblewrap, and runs nothing.
func search(path string, forbidden func(path string) bool) (string, error) {
	var passed []string
	for _, dir := range filepath.SplitList(path) {
		found, err := trustedTool(filepath.Join(dir, toolName), forbidden)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			passed = append(passed, err.Error())
			continue
		}
		return found, nil
	}
	if path == "" {
		return "", &policy.Refusal{
			Reason: policy.Unavailable, Code: "bwrap_missing", Subject: toolName,
			Why: "cannot find bubblewrap: PATH is unset or empty", Fix: "set PATH to where programs are, such as /usr/bin:/bin",
		}
	}
	return "", missingTool(passed)
}

// trustedTool is a bubblewrap that nobody can replace.
func trustedTool(path string, forbidden func(string) bool) (string, error) {
	found, info, err := trusted.Program(path, forbidden)
	switch {
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSetuid != 0:
		return "", fmt.Errorf("%q is setuid, and --disable-userns needs one that isn't", found)
	}
	return found, nil
}

func missingTool(passed []string) error {
	r := &policy.Refusal{
		Reason: policy.Unavailable, Code: "bwrap_missing", Subject: toolName,
		Why: "cannot find bubblewrap: no bwrap on the PATH",
		Fix: "install it: apt install bubblewrap (or dnf, pacman, zypper, apk)",
	}
	if len(passed) > 0 {
		r.Code = "bwrap_untrusted"
		r.Why = "cannot use bubblewrap: " + strings.Join(passed, "; ")
		r.Fix = "install it where only root can write, as the system's package does"
	}
	return r
}

// versionTimeout bounds a program that should answer in milliseconds.
const versionTimeout = 10 * time.Second

// identify asks a bubblewrap for its version.
func identify(ctx context.Context, path string) (plan.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{} // no LD_PRELOAD and the like
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err == nil {
		_, err = parseVersion(string(out))
	}
	if err != nil {
		return plan.Tool{}, &policy.Refusal{
			Reason: policy.Unavailable, Code: "bwrap_broken", Subject: path,
			Why: fmt.Sprintf("cannot learn the version of %q: %v", path, err),
			Fix: "run it with --version, and reinstall it if it fails", Err: err,
		}
	}
	return plan.Tool{Path: path, Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")}, nil
}

// parseVersion reads "bubblewrap 0.8.0", or "0.8.0"; what follows the third
// number ("-rc1") doesn't matter.
func parseVersion(s string) (v [3]int, err error) {
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(s), "bubblewrap "), ".", 3)
	for i := range v {
		if i >= len(parts) {
			return v, fmt.Errorf("cannot read version %q: got %d numbers, wanted 3", s, i)
		}
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i == 2 && end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return v, fmt.Errorf("cannot read version %q: %w", s, err)
		}
		v[i] = int(n)
	}
	return v, nil
}
