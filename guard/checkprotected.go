package guard

import "fmt"

// checkProtected refuses grants that reach into the protected set. No policy
// lifts it; the run directory, the workspace, the home and --share are its
// only exceptions.
func (g *gate) checkProtected() error {
	if err := g.checkExceptions(); err != nil {
		return err
	}
	for _, b := range g.writes {
		if err := g.checkReach(b, "protected_write", "writing to"); err != nil {
			return err
		}
		if err := g.checkHolds(b, "protected_write", "writing to"); err != nil {
			return err
		}
	}
	for _, b := range g.allows {
		if err := g.checkReach(b, "protected_read", "reading"); err != nil {
			return err
		}
	}
	for _, b := range g.sockets {
		if g.isToolbelt(b) {
			g.excepts = append(g.excepts, g.own(b, verbExcept, b.rule.Text))
			continue
		}
		if err := g.checkReach(b, "protected_socket", "connecting to"); err != nil {
			return err
		}
	}
	return nil
}

// checkExceptions refuses a workspace, run directory or home that is a
// protected path itself, by whatever mount it was reached: an exception lies
// in what is protected, it isn't all of it. A launch from within the state
// directory would else write the pins of trusted policies and every record.
func (g *gate) checkExceptions() error {
	for _, e := range []struct {
		name string
		at   *bound
	}{{"workspace", g.places.workspace}, {"run directory", g.places.run}, {"home", g.places.home}} {
		for _, p := range g.protects {
			if e.at == nil || p.alias || p.obj.missing() || e.at.obj.id != p.obj.id {
				continue
			}
			return refuse("protected_exception", e.at.given, two{e.at, p},
				fmt.Sprintf("cannot use %q as %s: it is the protected path %q itself", e.at.given, e.name, p.given),
				"use a directory beneath it, or one elsewhere")
		}
	}
	return nil
}

func (g *gate) isToolbelt(b *bound) bool {
	t := g.places.toolbelt
	return t != nil && t.obj.path == b.obj.path
}

// checkReach refuses a grant that is protected or lies in something that is.
func (g *gate) checkReach(b *bound, code, doing string) error {
	p := g.protectedAt(b.obj.path)
	if p == nil || b.rule.Class == ClassBuiltin {
		return nil
	}
	return refuse(code, b.given, two{b, p},
		fmt.Sprintf("cannot grant %s %q: it lies in the protected path %q", doing, b.given, p.given),
		"take the entry out; only the workspace, the run directory, the home and --share may lie there")
}

// checkHolds refuses a grant that holds a protected path with something
// writable beneath: that would leave the grant, the protection and the
// exception nested in one another.
func (g *gate) checkHolds(b *bound, code, doing string) error {
	for _, p := range g.protects {
		if !beneath(p.obj.path, b.obj.path) {
			continue
		}
		if e := g.writableBeneath(p); e != nil {
			return refuse(code, b.given, two{b, p},
				fmt.Sprintf("cannot grant %s %q: it holds the protected path %q with the writable %q beneath", doing, b.given, p.given, e.given),
				fmt.Sprintf("grant what is needed of %q, not the whole of it", b.given))
		}
	}
	return nil
}

// writableBeneath finds an exception that may be written beneath a protected
// path. A directory that pinfold made for this launch alone is none: nobody
// else has a name for it.
func (g *gate) writableBeneath(p *bound) *bound {
	for _, e := range []struct {
		at   *bound
		made bool
	}{
		{g.places.workspace, g.request.WorkspaceMade},
		{g.places.run, g.request.RunMade},
		{g.places.home, false},
	} {
		if e.at != nil && !e.made && beneath(e.at.obj.path, p.obj.path) {
			return e.at
		}
	}
	return nil
}

// protectedAt is the protected path that holds p, nil where there is none or
// an exception lies between.
func (g *gate) protectedAt(p string) *bound {
	var found *bound
	for _, b := range g.protects {
		if within(p, b.obj.path) && (found == nil || len(b.obj.path) > len(found.obj.path)) {
			found = b
		}
	}
	if found == nil {
		return nil
	}
	for _, e := range g.excepts {
		if within(p, e.obj.path) && within(e.obj.path, found.obj.path) {
			return nil
		}
	}
	return found
}
