package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"pinfold/doctor"
	"pinfold/policy"
)

// launchTimeout bounds one launch of doctor's; one takes some 50 ms.
const launchTimeout = 30 * time.Second

// prober asks this machine. Its launches are this very program's wrap, so
// that doctor can't say yes where wrap would refuse, nor the reverse.
func (p *program) prober(state string) doctor.Prober {
	return &doctor.Live{Path: os.Getenv("PATH"), Run: func(ctx context.Context, document string) error {
		return tryLaunch(ctx, state, document)
	}}
}

// tryLaunch runs true under a policy and returns wrap's refusal.
func tryLaunch(ctx context.Context, state, document string) error {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	args := []string{"wrap", "--quiet", "--error-format", "json", "--policy", "/dev/stdin", "--workspace", "tmp"}
	if state != "" {
		args = append(args, "--state", state)
	}
	cmd := exec.CommandContext(ctx, self, append(args, "--", "true")...)
	cmd.Stdin = strings.NewReader(document)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	if err == nil {
		return nil
	}
	exit, isExit := errors.AsType[*exec.ExitError](err)
	if !isExit || exit.ExitCode() != exitRefused {
		return fmt.Errorf("the launch ended with %w: %s", err, oneLine(stderr.String()))
	}
	r := &policy.Refusal{}
	if json.Unmarshal(stderr.Bytes(), r) != nil || r.Code == "" {
		return fmt.Errorf("the launch was refused in words that can't be read: %s", oneLine(stderr.String()))
	}
	return r
}
