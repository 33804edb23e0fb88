package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pinfold/policy"
)

// launchTimeout bounds one launch of doctor's; one takes some 50 ms.
const launchTimeout = 30 * time.Second

// tryDocument runs true in a throw-away workspace, with a socket to grant
// where the policy speaks of one. A workspace that isn't granted may not show,
// where the state is in a private directory, so true starts in / then.
func tryDocument(ctx context.Context, state, document string) error {
	args := []string{"--policy", "/dev/stdin", "--workspace", "tmp"}
	if !strings.Contains(document, "{workspace}") {
		args = append(args, "--chdir", "/")
	}
	if strings.Contains(document, "{toolbelt}") {
		socket, stop, err := listenSomewhere(ctx)
		if err != nil {
			return err
		}
		defer stop()
		args = append(args, "--toolbelt", socket)
	}
	return tryLaunch(ctx, state, document, args...)
}

// listenSomewhere listens on a unix socket in the first directory that can
// hold one: a full /tmp says nothing about launches.
func listenSomewhere(ctx context.Context) (socket string, stop func(), err error) {
	var why error
	for _, parent := range []string{os.TempDir(), "/dev/shm", "/var/tmp", os.Getenv("XDG_RUNTIME_DIR")} {
		socket, stop, err := listenIn(ctx, parent)
		if err == nil {
			return socket, stop, nil
		}
		why = errors.Join(why, err)
	}
	return "", nil, fmt.Errorf("cannot listen on a unix socket anywhere: %w", why)
}

// listenIn makes a directory for the socket. Nobody is expected to connect, so
// nothing is accepted.
func listenIn(ctx context.Context, parent string) (socket string, stop func(), err error) {
	dir, err := os.MkdirTemp(parent, "pinfold-doctor-")
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "socket")
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return socket, func() { _, _ = l.Close(), os.RemoveAll(dir) }, nil
}

// tryLaunch runs true by wrap, with a policy to read, and returns wrap's
// refusal.
func tryLaunch(ctx context.Context, state, stdin string, flags ...string) error {
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	args := append([]string{"wrap", "--quiet", "--error-format", "json"}, flags...)
	if state != "" {
		args = append(args, "--state", state)
	}
	cmd := exec.CommandContext(ctx, self, append(args, "--", "true")...)
	cmd.Stdin = strings.NewReader(stdin)
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
