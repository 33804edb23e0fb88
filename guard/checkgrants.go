package guard

import (
	"fmt"
	"path"
	"slices"

	"pinfold/policy"
)

// checkGrants refuses grants that lead nowhere or that no launch can have.
func (g *gate) checkGrants() error {
	for _, b := range g.writes {
		if err := g.checkWrite(b); err != nil {
			return err
		}
	}
	for _, b := range slices.Concat(g.allows, g.sockets, g.shares) {
		if err := checkKernel(b); err != nil {
			return err
		}
	}
	for _, b := range slices.Concat(g.writes, g.allows, g.sockets) {
		if err := g.checkUnplaced(b); err != nil {
			return err
		}
		if err := g.checkKernelView(b); err != nil {
			return err
		}
	}
	if err := g.checkRoot(); err != nil {
		return err
	}
	for _, b := range slices.Concat(g.readOnly, g.denies) {
		if err := checkHideable(b); err != nil {
			return err
		}
	}
	if err := g.checkSockets(); err != nil {
		return err
	}
	return g.checkWorkspace()
}

func (g *gate) checkWrite(b *bound) error {
	switch {
	case b.obj.path == "/":
		return refuse("write_root", "/", b, `cannot grant writing to "/": it holds everything`, "grant the directories that the command writes to")
	case b.obj.end == endUnreachable:
		return g.unreachable(b)
	case b.obj.end == endLoop:
		return refuse("symlink_loop", b.given, b, fmt.Sprintf("cannot grant %q: too many levels of symbolic links", b.given), "remove the links that lead in a circle")
	case b.obj.missing():
		return refuse("write_missing", b.given, b, fmt.Sprintf("cannot grant writing to %q: it doesn't exist", b.given),
			g.missingFix(b))
	}
	if slices.Contains(privateDirs, b.obj.path) {
		g.note(fmt.Sprintf("%s: %s is the launch's own and writable anyway; nothing of the host's shows there", b, b.obj.path))
	}
	return checkKernel(b)
}

// missingFix doesn't make a directory where a service wants to have its socket.
func (g *gate) missingFix(b *bound) string {
	if path.Ext(b.obj.path) == ".sock" || g.isEscape(b) {
		return fmt.Sprintf("a socket is connected to, and not written: start what makes it, and list it in \"sockets\": [%q]", b.rule.Text)
	}
	return fmt.Sprintf("mkdir -p %s, or write %q for one that may be missing", quote(b.given), "?"+b.rule.Text)
}

// checkRoot refuses rules for "/" that read.base is there for.
func (g *gate) checkRoot() error {
	for _, b := range slices.Concat(g.denies, g.allows) {
		base := "host"
		switch {
		case b.obj.path != "/":
			continue
		case b.verb == verbDeny:
			base = "none"
		case g.base() == policy.BaseHost:
			continue // it says what holds anyway
		}
		return refuse("rule_for_root", "/", b, fmt.Sprintf("cannot %s %q by a rule: it is where everything else stands", b.verb, "/"),
			fmt.Sprintf(`set "read": {"base": %q}, and leave the entry out`, base))
	}
	return nil
}

// checkKernel refuses a grant in a directory that is made for each launch.
func checkKernel(b *bound) error {
	p := b.obj.path
	if within(p, "/dev/shm") {
		return nil
	}
	for _, dir := range []string{"/proc", "/dev", "/sys"} {
		if within(p, dir) {
			return refuse("kernel_directory", b.given, b,
				fmt.Sprintf("cannot grant %q: every launch has a %s of its own", b.given, dir), "leave the entry out")
		}
	}
	return nil
}

// minimalDev is what /dev holds inside.
var minimalDev = []string{ //nolint:gochecknoglobals // a table
	"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
}

// checkHideable refuses to take away what every launch has.
func checkHideable(b *bound) error {
	p := b.obj.path
	inside := within(p, "/proc") || p == "/dev" || p == "/sys"
	for _, name := range minimalDev {
		inside = inside || within(p, "/dev/"+name) && !beneath(p, "/dev/shm")
	}
	if !inside || b.verb == verbReadOnly && p == "/sys" || p == "/dev/shm" {
		return nil
	}
	return refuse("kernel_directory", b.given, b,
		fmt.Sprintf("cannot take %q away: it is part of the /proc, /dev or /sys that every launch has", b.given), "leave the entry out")
}

// checkWorkspace refuses a workspace that can't show inside.
func (g *gate) checkWorkspace() error {
	for _, b := range []*bound{g.places.workspace, g.places.run} {
		switch {
		case b == nil:
		case slices.Contains(privateDirs, b.obj.path):
			return refuse("private_directory", b.given, nil,
				fmt.Sprintf("cannot use %s %q: every launch has a private one of its own", b.rule.Source, b.given),
				fmt.Sprintf("use a directory beneath it: mkdir -p %s", quote(b.obj.path+"/work")))
		default:
			if err := checkKernel(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSockets refuses entries of the sockets list that aren't sockets.
func (g *gate) checkSockets() error {
	for _, b := range g.sockets {
		if b.obj.missing() {
			g.note(fmt.Sprintf("%s: no socket stands at %s", b, b.given))
			continue
		}
		if b.obj.socket || g.isEscape(b) {
			continue
		}
		return refuse("not_a_socket", b.given, b, fmt.Sprintf("cannot grant the socket %q: it isn't one", b.given),
			"name the socket itself; to grant reading a file, use read.allow")
	}
	return nil
}

// isEscape reports whether a rule names a default-denied place of sockets.
func (g *gate) isEscape(b *bound) bool {
	for _, d := range g.allDefaults {
		if d.socket && names(b, d) {
			return true
		}
	}
	return false
}

func (g *gate) note(s string) {
	if !contains(g.notes, s) {
		g.notes = append(g.notes, s)
	}
}
