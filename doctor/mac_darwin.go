package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/seatbelt"
)

// LiveMac asks this Mac.
type LiveMac struct {
	// Run runs true by wrap under a policy document.
	Run func(ctx context.Context, document string) error
}

// Version is kern.osproductversion.
func (*LiveMac) Version() (string, error) {
	v, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		return "", fmt.Errorf("cannot learn the version of macOS: %w", err)
	}
	return v, nil
}

// Translated is sysctl.proc_translated, which Intel machines don't have.
func (*LiveMac) Translated() (bool, error) {
	n, err := unix.SysctlUint32("sysctl.proc_translated")
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return n == 1, err
}

// SandboxExec is found as a launch finds it, and must be root's alone.
func (*LiveMac) SandboxExec() error {
	if _, err := seatbelt.Probe(); err != nil {
		return err
	}
	info, err := os.Stat(seatbelt.SandboxExec)
	if err != nil {
		return err
	}
	if st, isStat := info.Sys().(*syscall.Stat_t); !isStat || st.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%q isn't root's alone: %w", seatbelt.SandboxExec, ErrNotThere)
	}
	return nil
}

// macTimeout bounds a program of the system's.
const macTimeout = 10 * time.Second

// Apply is the one place where a profile is an argument: it has no path in it.
func (*LiveMac) Apply(ctx context.Context) error {
	_, err := output(ctx, seatbelt.SandboxExec, "-p", "(version 1)(allow default)", "/usr/bin/true")
	return err
}

// Integrity is csrutil status, in its words.
func (*LiveMac) Integrity(ctx context.Context) (string, error) {
	return output(ctx, "/usr/bin/csrutil", "status")
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, macTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = []string{}, "/"
	b, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(b))
	if err != nil {
		return "", fmt.Errorf("cannot run %q: %w: %s", name, err, text)
	}
	return text, nil
}

// adminGroup is "admin", which is 80 on every Mac.
const adminGroup = 80

// Admin looks at the groups of this process.
func (*LiveMac) Admin() (bool, error) {
	groups, err := os.Getgroups()
	return os.Geteuid() == 0 || slices.Contains(groups, adminGroup), err
}

// Launch is Run.
func (m *LiveMac) Launch(ctx context.Context, document string) error { return m.Run(ctx, document) }
