package guard

import (
	"runtime"

	"pinfold/policy"
)

// expand is what a policy's path means in this launch.
func (g *gate) expand(r policy.PathRule) (string, error) {
	return policy.Expand(r, policy.Vars{
		Workspace: g.request.Workspace, Run: g.request.RunDir,
		Toolbelt: g.request.Toolbelt, Home: g.home(),
	})
}

// bindDefaults binds the default denies of every home that the user has, and
// leaves out those that the policy lifts.
func (g *gate) bindDefaults() error {
	seen := map[string]bool{}
	vars := splitEnv(g.request.Env)
	for _, home := range g.homes() {
		for _, d := range policy.DefaultDenies(g.defaultContext(home, vars)) {
			if seen[d.Path] {
				continue
			}
			seen[d.Path] = true
			if err := g.bindDefault(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gate) defaultContext(home string, vars map[string]string) policy.DefaultContext {
	env := func(name string) string { return vars[name] }
	return policy.DefaultContext{
		GOOS: runtime.GOOS, UID: g.request.UID, Home: home,
		RuntimeDir: g.request.Runtime, SSHAuthSock: g.request.SSHAuthSock,
		ConfigHome: env("XDG_CONFIG_HOME"), DataHome: env("XDG_DATA_HOME"), Env: env,
	}
}

func (g *gate) bindDefault(d policy.DefaultDeny) error {
	b := &bound{
		verb: verbDeny, look: policy.DenyEmpty, socket: d.Lift == policy.LiftSockets,
		rule: Rule{Class: ClassDefault, Text: d.Text, Source: "default denies"},
	}
	if d.Variable != "" {
		b.rule.Source += " ($" + d.Variable + ")"
	}
	if err := g.bind(b, d.Path); err != nil {
		return err
	}
	if b.obj.end == endUnreachable {
		return nil // the command, the same user, can't reach it either
	}
	if d.Variable != "" && !g.means(d, b) {
		return nil
	}
	g.allDefaults = append(g.allDefaults, b)
	if !g.lifted(b) {
		g.defaults = append(g.defaults, b)
		if d.Kind == policy.KindCredential {
			return g.bindLinksIn(b)
		}
	}
	return nil
}
