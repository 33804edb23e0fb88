//go:build linux

package container_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"pinfold/container"
)

// client is an engine's own command line, as a person types it.
type client struct {
	argv []string
	env  []string
	as   *syscall.Credential
}

func dockerClient(endpoint string) client {
	return client{[]string{"docker", "--host", endpoint}, []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, nil}
}

// runContainer is "docker run" with options; what a test leaves, [lab.connect]
// removes.
func (l *lab) runContainer(t *testing.T, image string, options []string, argv ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append(append([]string{"run", "--rm", "--network", "none", "--label", container.LabelHost + "=" + owner(t)}, options...), image)
	args = append(append(l.client.argv[1:len(l.client.argv):len(l.client.argv)], args...), argv...)
	cmd := exec.CommandContext(ctx, l.client.argv[0], args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", l.client.env, 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.client.as}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
