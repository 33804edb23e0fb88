package guard

import "fmt"

// checkNamed refuses a flag whose path leads to nothing that it could mean: a
// launch that goes on without the socket, the home or the shared file that its
// caller named would fail later, and elsewhere.
func (g *gate) checkNamed() error {
	if b := g.places.toolbelt; b != nil {
		if err := g.checkToolbelt(b); err != nil {
			return err
		}
	}
	if b := g.places.home; b != nil && g.request.HomeNamed && b.obj.kind != Dir {
		return g.notThere("--home", b)
	}
	return nil
}

func (g *gate) checkShare(b *bound) error {
	if b.obj.missing() {
		return g.nothingAt("share_missing", "--share", b, "make it first, or leave --share out")
	}
	return nil
}

func (g *gate) checkToolbelt(b *bound) error {
	switch {
	case b.obj.missing():
		return g.nothingAt("toolbelt_missing", "--toolbelt", b, "start what listens there first, or leave --toolbelt out")
	case !b.obj.socket:
		return refuse("toolbelt_not_a_socket", b.given, nil,
			fmt.Sprintf("cannot use --toolbelt %q: it isn't a unix socket", b.given), "give --toolbelt a unix socket")
	}
	return nil
}

// nothingAt refuses a missing path of any kind.
func (g *gate) nothingAt(code, flag string, b *bound, fix string) error {
	if b.obj.end == endUnreachable {
		return g.unreachable(b)
	}
	return refuse(code, b.given, nil, fmt.Sprintf("cannot use %s %q: it doesn't exist", flag, b.given), fix)
}
