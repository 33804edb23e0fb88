package guard

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"pinfold/policy"
)

// places are the launch's own paths, resolved.
type places struct {
	workspace, run, home, record, state *bound
	toolbelt                            *bound
}

// checkRequest refuses what no back end could hand on.
func (g *gate) checkRequest() error {
	if len(g.request.Argv) == 0 || g.request.Argv[0] == "" {
		return refuse("no_command", "", nil, "cannot run nothing: no command was given", "put the command after --")
	}
	for _, list := range [][]string{g.request.Argv, g.request.Env, g.request.EnvAdd} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				// The argument isn't shown: it may be a secret.
				return refuse("nul_byte", "", nil, "cannot pass on an argument or variable: it holds a NUL byte", "leave the NUL byte out")
			}
		}
	}
	return nil
}

// locate resolves the launch's own paths.
func (g *gate) locate() error {
	r := g.request
	for _, p := range []struct {
		flag, path string
		must       Kind // what must stand there
		to         **bound
		canonical  *string
	}{
		{"--workspace", r.Workspace, Dir, &g.places.workspace, &g.paths.Workspace},
		{"--run-dir", r.RunDir, Dir, &g.places.run, &g.paths.Run},
		{"--home", r.Home, Missing, &g.places.home, &g.paths.Home},
		{"--record", r.Record, Missing, &g.places.record, &g.paths.Record},
		{"--state", r.State, Missing, &g.places.state, &g.paths.State},
		{"--toolbelt", r.Toolbelt, Missing, &g.places.toolbelt, &g.paths.Toolbelt},
	} {
		if p.path == "" {
			continue
		}
		b, err := g.literal(p.flag, p.path, ClassBuiltin, verbExcept)
		if err != nil {
			return err
		}
		if p.must != Missing && b.obj.kind != p.must {
			return g.notThere(p.flag, b)
		}
		*p.to, *p.canonical = b, b.obj.path
	}
	return g.checkNamed()
}

// notThere refuses a directory of the launch that isn't one.
func (g *gate) notThere(flag string, b *bound) error {
	name := strings.TrimPrefix(flag, "--")
	if b.obj.end == endUnreachable || b.obj.missing() && b.obj.end == endFound {
		return g.unreachable(b)
	}
	if b.obj.missing() {
		return refuse(snake(name)+"_missing", b.given, nil,
			fmt.Sprintf("cannot use %s %q: it doesn't exist", flag, b.given), "mkdir -p "+quote(b.given))
	}
	return refuse(snake(name)+"_not_a_directory", b.given, nil,
		fmt.Sprintf("cannot use %s %q: it isn't a directory", flag, b.given), fmt.Sprintf("give %s a directory", flag))
}

// unreachable refuses what this user can't look at.
func (g *gate) unreachable(b *bound) error {
	return refuse("unreachable", b.given, b,
		fmt.Sprintf("cannot look at %q: permission denied beneath %q", b.given, b.obj.exists),
		"run as the user whose directory it is (as root: --user NAME)")
}

// literal binds a path that a flag or the needs give; it is taken as it is.
func (g *gate) literal(source, p string, c Class, v verb) (*bound, error) {
	b := &bound{verb: v, rule: Rule{Class: c, Text: p, Source: source}}
	if !path.IsAbs(p) || strings.ContainsRune(p, 0) {
		return nil, refuse("path_not_absolute", p, b, fmt.Sprintf("cannot use %s %q: not an absolute path", source, p), "give the whole path")
	}
	return b, g.bind(b, p)
}

// maxKept bounds the descriptors that are kept from the resolution on; the
// other objects are opened again, and compared, when the Grant is made. A
// policy of many thousand rules must not run into RLIMIT_NOFILE.
const maxKept = 64

// bind looks a rule's path up.
func (g *gate) bind(b *bound, p string) error {
	obj, err := g.fs.lookup(p)
	if err != nil {
		r := refuse("path_unusable", p, b, err.Error(), unusableFix(err))
		r.Err = err
		return r
	}
	b.given, b.obj = path.Clean(p), obj
	if b.verb != verbWrite || g.kept >= maxKept {
		b.obj.release()
		return nil
	}
	g.kept++
	return nil
}

// standsAt is the canonical path that p leads to, and what stands there.
func (g *gate) standsAt(p string) (at string, k Kind, err error) {
	o, err := g.fs.lookup(p)
	o.release()
	return o.path, o.kind, err
}

// unusableFix says what to do about a path that can't be looked up.
func unusableFix(err error) string {
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "name a path of fewer than 4,096 bytes, none of whose names has more than 255"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "allow more open files (ulimit -n), or leave entries out"
	}
	return "name the path without that link, or leave the entry out"
}

func snake(s string) string { return strings.ReplaceAll(s, "-", "_") }

// quote makes a word that a shell takes as it is.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return policy.ShellQuote(s)
}

// home is what "~" stands for.
func (g *gate) home() string {
	if g.request.Home != "" {
		return g.request.Home
	}
	for _, h := range g.homes() {
		return h
	}
	return ""
}

// homes are the directories whose credentials are denied: {home}, the home of
// the environment, and the one that the machine knows for the user. With
// --home elsewhere the user's own is still there to be read.
func (g *gate) homes() []string {
	var out []string
	env, _ := lookupEnv(g.request.Env, "HOME")
	for _, h := range []string{g.request.Home, env, g.homeOf(g.request.UID)} {
		if path.IsAbs(h) && path.Clean(h) != "/" && !contains(out, path.Clean(h)) {
			out = append(out, path.Clean(h))
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// sourceOf says where a policy's rule stands: "policy.json:4:12 read.deny[0]".
func sourceOf(r policy.PathRule) string {
	if r.At.File == "" || r.At.Line == 0 {
		return r.Source
	}
	return fmt.Sprintf("%s:%d:%d %s", r.At.File, r.At.Line, r.At.Column, r.Source)
}
