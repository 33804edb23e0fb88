package guard

import "fmt"

// startDir is where the command starts: --chdir, else the caller's directory
// where it shows inside, else the workspace, else the run directory. It
// grants nothing.
func (g *gate) startDir() (string, error) {
	if g.request.Dir != "" {
		b, err := g.literal("--chdir", g.request.Dir, ClassCaller, verbAllow)
		if err != nil {
			return "", err
		}
		defer b.obj.release()
		return g.checkDir(b)
	}
	if dir, ok := g.callerDir(); ok {
		return dir, nil
	}
	for _, b := range []*bound{g.places.workspace, g.places.run} {
		if b != nil {
			return g.checkDir(b)
		}
	}
	return "/", nil
}

func (g *gate) callerDir() (string, bool) {
	if g.request.CallerDir == "" {
		return "", false
	}
	o, err := g.fs.lookup(g.request.CallerDir)
	if err != nil {
		return "", false
	}
	defer o.release()
	return o.path, o.kind == Dir && g.lattice.at(o.path).access.readable()
}

func (g *gate) checkDir(b *bound) (string, error) {
	switch {
	case b.obj.end == endUnreachable:
		return "", g.unreachable(b)
	case b.obj.kind != Dir:
		return "", refuse("dir_missing", b.given, nil, fmt.Sprintf("cannot start in %q: no directory stands there", b.given), "--chdir with a directory that exists")
	}
	v := g.lattice.at(b.obj.path)
	switch {
	case v.access.readable() || isOwn(b.obj.path):
		return b.obj.path, nil
	case v.access == hidden:
		return "", refuse("dir_hidden", b.given, v.rule, fmt.Sprintf("cannot start in %q: it doesn't show inside", b.given),
			fmt.Sprintf("add %q to read.allow, or start elsewhere with --chdir", b.given))
	}
	return "", refuse("dir_denied", b.given, v.rule, fmt.Sprintf("cannot start in %q: the most specific rule there denies it", b.given),
		fmt.Sprintf("start elsewhere with --chdir, or change what denies it: %s", v.rule))
}
