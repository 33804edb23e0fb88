package guard

import (
	"fmt"
	"slices"

	"pinfold/policy"
)

// checkTrust refuses a write grant, workspace or run directory that another
// user could exchange for something else.
func (g *gate) checkTrust() error {
	list := slices.Clone(g.writes)
	for _, b := range []*bound{g.places.workspace, g.places.run} {
		if b != nil {
			list = append(list, b)
		}
	}
	for _, b := range list {
		if err := g.checkTrusted(b); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) checkTrusted(b *bound) error {
	for _, l := range b.obj.links {
		if !g.trusted(l.uid) {
			return refuse("foreign_symlink", b.given, b,
				fmt.Sprintf("cannot grant %q: it is reached through %q, a symbolic link of user %d", b.given, l.path, l.uid),
				g.foreignFix(l.uid, "name what the link leads to: "+quote(b.obj.path)))
		}
	}
	for _, s := range b.obj.steps {
		if u := g.unmappedIn(s); u != nil {
			return g.nested(b, s, *u)
		}
		if who := g.renamer(s); who != "" {
			return refuse("renamable_parent", b.given, b,
				fmt.Sprintf("cannot grant %q: %s may rename %q in %q", b.given, who, s.name, s.dir),
				g.renamerFix(s))
		}
	}
	return nil
}

// unmappedIn is the user of a step, if the kernel shows somebody else in the
// place of a user whom this user namespace doesn't map.
func (g *gate) unmappedIn(s step) *uint32 {
	sticky := s.mode&modeSticky != 0 && s.mode&modeOtherWrite != 0
	switch {
	case g.unmapped == nil:
		return nil
	case g.unmapped(s.uid):
		return &s.uid
	case sticky && g.unmapped(s.owner):
		return &s.owner
	}
	return nil
}

// nested refuses where nobody can tell whose directory it is: root of the
// host and every other user look the same from inside.
func (g *gate) nested(b *bound, s step, uid uint32) error {
	r := refuse("user_unmapped", b.given, b,
		fmt.Sprintf("cannot tell who may rename %q in %q: this user namespace shows its owner as user %d", s.name, s.dir, uid),
		"start pinfold outside of the user namespace (or container) that it runs in")
	r.Reason = policy.Unavailable
	return r
}

// renamerFix says what to type about a name that another user may rename. In
// a sticky directory it is the name's owner who may.
func (g *gate) renamerFix(s step) string {
	if g.trusted(s.uid) && s.mode&modeSticky != 0 {
		return g.foreignFix(s.owner, "use a directory that is your own, with every one above it")
	}
	return g.foreignFix(s.uid, "chmod go-w "+quote(s.dir))
}

// foreignFix says what to type; a root caller can become the user whose
// directory it is.
func (g *gate) foreignFix(uid uint32, otherwise string) string {
	if g.request.UID == 0 && uid != 0 {
		return fmt.Sprintf("run the launch as that user: --user '#%d' (or its name)", uid)
	}
	return otherwise
}

// trusted are root, who can do anything anyway, and the caller.
func (g *gate) trusted(uid uint32) bool {
	return uid == 0 || int64(uid) == int64(g.request.UID)
}

// The mode bits that matter here, inode(7).
const (
	modeSticky     = 0o1000
	modeGroupWrite = 0o020
	modeOtherWrite = 0o002
)

// renamer says which other user may rename a name, "" for none. In a sticky
// directory that takes owning the directory or what the name stands for.
func (g *gate) renamer(s step) string {
	if !g.trusted(s.uid) {
		return fmt.Sprintf("user %d", s.uid)
	}
	others := s.mode&modeOtherWrite != 0
	group := !others && s.mode&modeGroupWrite != 0 && (s.acl || !g.private(s.gid, g.trusted))
	switch {
	case !others && !group:
		return ""
	case s.mode&modeSticky == 0 && others:
		return "any user"
	case s.mode&modeSticky == 0:
		return fmt.Sprintf("group %d", s.gid)
	case !g.trusted(s.owner):
		return fmt.Sprintf("user %d", s.owner)
	}
	return ""
}

// checkRun refuses a run directory that isn't what the caller meant.
func (g *gate) checkRun() error {
	run := g.places.run
	if run == nil {
		return nil
	}
	if len(run.obj.links) > 0 {
		return refuse("run_dir_symlink", run.given, nil,
			fmt.Sprintf("cannot use --run-dir %q: it is reached through the symbolic link %q", run.given, run.obj.links[0].path),
			"--run-dir "+quote(run.obj.path))
	}
	if err := g.checkRunsDir(run); err != nil {
		return err
	}
	for _, p := range g.protects {
		if beneath(p.obj.path, run.obj.path) {
			return refuse("run_dir_holds_protected", run.given, p,
				fmt.Sprintf("cannot use --run-dir %q: it holds the protected path %q", run.given, p.given), "use a directory of its own")
		}
	}
	return nil
}

func (g *gate) checkRunsDir(run *bound) error {
	if g.request.RunsDir == "" {
		return nil
	}
	runs, err := g.literal("--runs-dir", g.request.RunsDir, ClassBuiltin, verbExcept)
	if err != nil {
		return err
	}
	defer runs.obj.release()
	if beneath(run.obj.path, runs.obj.path) {
		return nil
	}
	fix := "use a directory beneath --runs-dir"
	if g.request.RunMade {
		fix = "name one beneath --runs-dir with --run-dir"
	}
	return refuse("run_dir_outside", run.given, runs,
		fmt.Sprintf("cannot use the run directory %q: it isn't beneath %q", run.given, runs.obj.path), fix)
}
