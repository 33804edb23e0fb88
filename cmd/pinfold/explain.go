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
			if _, rest, url := strings.Cut(subject, "://"); url {
				host, _, _ := strings.Cut(rest, "/")
				return &usageError{
					why: fmt.Sprintf("cannot explain %q: a URL is neither a path nor a host", subject),
					fix: fmt.Sprintf("name its host alone: pinfold explain %s", host),
				}
			}
			return p.explain(c.Context, f, subject)
		},
	}
}

func (p *program) explain(ctx context.Context, f *launchFlags, subject string) (err error) {
	l, err := p.prepare(f, []string{"true"})
	defer func() { err = errors.Join(p.fromInside(err), l.removeFresh(err)) }()
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
		return &usageError{
			why: "cannot explain it: " + bad.Error(),
			fix: "name a path (with a slash, or starting with . or ~), a host, or HOST:PORT",
		}
	}
	text := egress.NewDecider(l.policy.Network).Explain(target)
	return p.printLines(text)
}

func (p *program) explainPath(grant *guard.Grant, subject string) error {
	cwd, err := os.Getwd()
	if err != nil && !filepath.IsAbs(subject) {
		return fmt.Errorf("cannot explain %q: %w", subject, err)
	}
	if rest, ok := strings.CutPrefix(subject, "~"); ok && (rest == "" || rest[0] == '/') {
		subject = grant.Paths().Home + rest
	}
	e, err := grant.Explain(absolute(cwd, subject))
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("%s: %s", e.Canonical, looksText(e)), fmt.Sprintf("rule: %s", e.Rule)}
	for _, l := range e.Links {
		lines = append(lines, "through the link: "+l)
	}
	for _, a := range e.Aliases {
		lines = append(lines, "also shown at: "+a)
	}
	if text := socketText(grant, e.Canonical); text != "" {
		lines = append(lines, "socket: "+text)
	}
	return p.printLines(strings.Join(lines, "\n"))
}

// looksText is what the command finds at a path.
func looksText(e guard.Explanation) string {
	if e.Watched {
		return "nothing is there, and what the command makes there is taken away"
	}
	if e.Covered {
		return "nothing is there, and nothing can be made there"
	}
	switch e.Looks {
	case "read-write":
		return "may be read and written"
	case "read-only":
		return "may be read, not written"
	case "deny":
		return "denied (permission denied, or not there)"
	case "empty":
		return "looks empty, and can't be written"
	case "private":
		return "the launch's own: nothing of the host shows"
	}
	return "not there: nothing of the host shows"
}

// socketText says whether a socket at a path can be connected to; "" where
// none stands there.
func socketText(grant *guard.Grant, path string) string {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return ""
	}
	for _, s := range grant.Sockets() {
		if s.Path == path {
			return fmt.Sprintf("may be connected to, %s", s.Rule)
		}
	}
	if grant.UnixSockets() == policy.SocketsAll {
		return "may be connected to where it shows, since unix_sockets is all"
	}
	return "can't be connected to: no entry of sockets names it"
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
