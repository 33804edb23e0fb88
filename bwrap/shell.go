package bwrap

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pinfold/egress"
	"pinfold/policy"
)

// firstShellFD is the first descriptor that a printed command line uses: a
// shell keeps those below ten for itself.
const firstShellFD = 10

// Shell is a bash command line that runs the command in the same mounts,
// namespaces and base filter without pinfold. It is weaker than a launch, and
// says so: there is no stub, so nothing is compared inside, Landlock isn't
// applied and no host is reachable. Values of the environment come from the
// shell that runs it, but for those that the policy itself writes.
func (l *Launch) Shell() string {
	var s strings.Builder
	s.WriteString("# bash. Without pinfold: no Landlock, no proxy (so no host), no check of the mounts inside.\n")
	if slices.ContainsFunc(l.later, func(l later) bool { return l.device }) {
		s.WriteString("# Root inside can give the devices in /dev another mode, which is the host's as well.\n")
	}
	for _, f := range l.fresh {
		s.WriteString("mkdir -p -- " + shellQuote(f.Path) + "\n") // a launch has its own
	}
	s.WriteString("env -i")
	for _, v := range l.Setup.Env {
		if word := shellEnv(v, l.setEnv); word != "" {
			s.WriteString(" \\\n  " + word)
		}
	}
	s.WriteString(" \\\n  " + shellQuote(l.Plan.Tool.Path))
	args, redirects := l.shellArgs()
	for _, line := range flagLines(args) {
		s.WriteString(" \\\n  " + line)
	}
	s.WriteString(" \\\n  --")
	for _, a := range l.Setup.Argv {
		s.WriteString(" " + shellQuote(a))
	}
	for _, r := range redirects {
		s.WriteString(" \\\n  " + r)
	}
	return s.String() + "\n"
}

// shellArgs are the arguments with descriptors numbered, and the redirections
// that open them. The command starts in its own directory, with no stub.
func (l *Launch) shellArgs() (args, redirects []string) {
	args = slices.Clone(l.Args)
	if i := slices.Index(args, fdName(DataStub)); i >= 3 {
		args = slices.Delete(args, i-3, i+2) // --perms MODE --ro-bind-data FD PATH
	}
	if i := slices.Index(args, "--chdir"); i >= 0 {
		args[i+1] = l.Setup.Dir
	}
	fd := firstShellFD
	for _, d := range l.Data {
		i := slices.Index(args, fdName(d.Name))
		if i < 0 {
			continue
		}
		args[i] = strconv.Itoa(fd)
		content := d.Content
		if d.Name == DataSeccomp && l.hand != nil {
			content = l.hand // nobody answers what the launch's hands over
		}
		redirects = append(redirects, redirect(fd, content))
		fd++
	}
	return args, redirects
}

func redirect(fd int, content []byte) string {
	if len(content) == 0 {
		return fmt.Sprintf("%d</dev/null", fd)
	}
	return fmt.Sprintf("%d< <(base64 -d <<<%s)", fd, shellQuote(base64.StdEncoding.EncodeToString(content)))
}

// flagLines puts each flag with its values on a line of its own.
func flagLines(args []string) []string {
	var lines []string
	for _, a := range args {
		if strings.HasPrefix(a, "--") || len(lines) == 0 {
			lines = append(lines, shellQuote(a))
			continue
		}
		lines[len(lines)-1] += " " + shellQuote(a)
	}
	return lines
}

// shellEnv is the word that passes one variable on, or "" for a name that a
// shell can't hold.
func shellEnv(v string, set map[string]string) string {
	name := envName(v)
	if value, ok := set[name]; ok {
		return shellQuote(name + "=" + value)
	}
	if !isShellName(name) || slices.Contains(egress.ProxyNames, name) {
		return ""
	}
	return fmt.Sprintf(`${%s+%s="$%s"}`, name, name, name)
}

func isShellName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// shellQuote makes one word of any text.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+@%") == "" {
		return s
	}
	return policy.ShellQuote(s)
}
