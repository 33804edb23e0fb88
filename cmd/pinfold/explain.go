package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"pinfold/egress"
	"pinfold/guard"
	"pinfold/policy"
)

func (p *program) explainCommand() *cli.Command {
	f := &launchFlags{}
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what the policy makes of one path, host or unix socket",
		ArgsUsage: "PATH|HOST[:PORT]|SOCKET",
		Description: "What holds a slash, or starts with a dot or a tilde, is a path. A host without a\n" +
			"port is asked for port 443.",
		Flags: f.flags(),
		Action: func(c *cli.Context) error {
			subject, err := oneArg(c, "PATH|HOST[:PORT]|SOCKET")
			if err != nil {
				return err
			}
			return p.explain(c.Context, f, subject)
		},
	}
}

func (p *program) explain(ctx context.Context, f *launchFlags, subject string) (err error) {
	l, err := p.prepare(f, []string{"true"})
	defer func() { err = errors.Join(err, l.removeFresh()) }()
	if err != nil {
		return err
	}
	if !isPath(subject) {
		return p.explainHost(l, subject)
	}
	grant, err := guard.GuardLaunch(ctx, l.policy, l.request, l.protected)
	if err != nil {
		return err
	}
	defer grant.Close()
	return p.explainPath(grant, subject)
}

func isPath(s string) bool {
	return strings.Contains(s, "/") || strings.HasPrefix(s, ".") || strings.HasPrefix(s, "~")
}

func (p *program) explainHost(l *prepared, subject string) error {
	if _, _, err := net.SplitHostPort(subject); err != nil {
		subject = net.JoinHostPort(strings.Trim(subject, "[]"), "443")
	}
	target, bad := egress.ParseTarget(subject)
	if bad != nil {
		return bad
	}
	text := egress.NewDecider(l.policy.Network).Explain(target)
	return p.printLines(text)
}

func (p *program) explainPath(grant *guard.Grant, subject string) error {
	path, err := resolve(subject, grant.Paths().Home)
	if err != nil {
		return err
	}
	access, rule := grant.At(path)
	text := fmt.Sprintf("%s: %s\nrule: %s\n", path, accessText(access), rule)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		text += socketText(grant, path)
	}
	return p.printLines(text)
}

// accessText is what a person finds at a path inside.
func accessText(a guard.Access) string {
	switch a {
	case guard.Deny:
		return "denied (permission denied, or not there)"
	case guard.Empty:
		return "empty (looks empty, and can't be written)"
	case guard.ReadOnly:
		return "may be read, not written"
	case guard.ReadWrite:
		return "may be read and written"
	}
	return "not there (nothing of the host shows)"
}

func socketText(grant *guard.Grant, path string) string {
	for _, s := range grant.Sockets() {
		if s.Path == path {
			return fmt.Sprintf("socket: may be connected to\nrule: %s\n", s.Rule)
		}
	}
	if grant.UnixSockets() == policy.SocketsAll {
		return "socket: may be connected to where it is visible (unix_sockets is all)\n"
	}
	return "socket: can't be connected to (no entry of sockets names it)\n"
}

// printLines prints text that may hold what somebody else chose.
func (p *program) printLines(text string) error {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if _, err := fmt.Fprintln(p.Out, oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

// resolve makes a path canonical as far as it exists.
func resolve(path, home string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = home + path[1:]
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		switch {
		case err == nil:
			return filepath.Join(real, rest), nil
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return "", fmt.Errorf("cannot look at %q: %w", path, cause(err))
		}
		if _, err := os.Lstat(at); err == nil {
			return "", fmt.Errorf("cannot look at %q: %q is a dangling link", path, at)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
