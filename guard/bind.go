package guard

import (
	"fmt"

	"pinfold/policy"
)

// bindPolicy binds the lists of the policy document and the run directory.
func (g *gate) bindPolicy() error {
	p := g.policy
	for _, l := range []struct {
		rules []policy.PathRule
		verb  verb
		to    *[]*bound
	}{
		{p.Write, verbWrite, &g.writes},
		{p.Read.Allow, verbAllow, &g.allows},
		{p.ReadOnly, verbReadOnly, &g.readOnly},
		{p.Read.Deny, verbDeny, &g.denies},
		{p.Sockets, verbAllow, &g.sockets},
	} {
		for _, r := range l.rules {
			b, err := g.bindRule(r, l.verb)
			if err != nil {
				return err
			}
			if b != nil {
				*l.to = append(*l.to, b)
			}
		}
	}
	if err := g.bindMounts(); err != nil {
		return err
	}
	if b := g.places.run; b != nil {
		g.writes = append(g.writes, g.own(b, verbWrite, "{run}"))
	}
	return nil
}

// bindRule binds one rule of the policy; nil means that it is optional and
// says nothing in this launch.
func (g *gate) bindRule(r policy.PathRule, v verb) (*bound, error) {
	b := &bound{
		verb: v, look: r.As, optional: r.Optional,
		rule: Rule{Class: ClassPolicy, Text: r.Text, Source: sourceOf(r)},
	}
	p, err := g.expand(r)
	if err != nil {
		if r.Optional {
			return nil, nil //nolint:nilnil // documented: no rule, no error
		}
		x := refuse("placeholder_missing", r.Text, b, err.Error(), "give the flag that says what it stands for, or leave the entry out")
		x.Err = err
		return nil, x
	}
	if err := g.bind(b, p); err != nil {
		return nil, err
	}
	if b.obj.missing() && b.optional {
		return nil, nil //nolint:nilnil // documented: no rule, no error
	}
	return b, nil
}

// own is a further rule at one of the launch's own paths.
func (g *gate) own(at *bound, v verb, text string) *bound {
	b := *at
	b.verb = v
	b.obj.handle = nil // the first rule keeps it
	b.rule = Rule{Class: ClassBuiltin, Text: text, Source: at.rule.Source}
	return &b
}

// bindCaller binds what the needs take away: they never grant.
func (g *gate) bindCaller() error {
	for _, l := range []struct {
		paths  []string
		source string
		verb   verb
		to     *[]*bound
	}{
		{g.request.Needs.ReadOnly, "needs.read_only", verbReadOnly, &g.readOnly},
		{g.request.Needs.Deny, "needs.deny", verbDeny, &g.denies},
	} {
		for i, p := range l.paths {
			b, err := g.literal(fmt.Sprintf("%s[%d]", l.source, i), p, ClassCaller, l.verb)
			if err != nil {
				return err
			}
			*l.to = append(*l.to, b)
		}
	}
	return nil
}

// bindProtected binds the protected set, its exceptions and the files of the
// policy, which nobody inside may write.
func (g *gate) bindProtected() error {
	for _, b := range []*bound{g.places.state, g.places.record} {
		if b != nil {
			p := g.own(b, verbProtect, b.rule.Text)
			p.rule.Class = ClassProtected
			g.protects = append(g.protects, p)
		}
	}
	for _, p := range g.protected {
		b, err := g.literal("--protect", p, ClassProtected, verbProtect)
		if err != nil {
			return err
		}
		g.protects = append(g.protects, b)
	}
	for _, b := range []*bound{g.places.workspace, g.places.run, g.places.home} {
		if b != nil {
			g.excepts = append(g.excepts, b)
		}
	}
	if err := g.bindShares(); err != nil {
		return err
	}
	return g.bindPolicyFiles()
}

// bindShares binds --share: exceptions to the protected set, to be read only.
func (g *gate) bindShares() error {
	for _, p := range g.request.Share {
		for _, v := range []verb{verbExcept, verbAllow, verbReadOnly} {
			b, err := g.literal("--share", p, ClassProtected, v)
			if err == nil {
				err = g.checkShare(b)
			}
			if err != nil {
				return err
			}
			switch v {
			case verbExcept:
				g.excepts = append(g.excepts, b)
			case verbAllow:
				g.shares = append(g.shares, b)
			default:
				g.readOnly = append(g.readOnly, b)
			}
		}
	}
	return nil
}
