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
	for _, home := range g.homes() {
		for _, d := range policy.DefaultDenies(g.defaultContext(home)) {
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

func (g *gate) defaultContext(home string) policy.DefaultContext {
	env := func(name string) string {
		v, _ := lookupEnv(g.request.Env, name)
		return v
	}
	return policy.DefaultContext{
		GOOS: runtime.GOOS, UID: g.request.UID, Home: home,
		RuntimeDir: g.request.Runtime, SSHAuthSock: g.request.SSHAuthSock,
		ConfigHome: env("XDG_CONFIG_HOME"), DataHome: env("XDG_DATA_HOME"),
	}
}

func (g *gate) bindDefault(d policy.DefaultDeny) error {
	b := &bound{
		verb: verbDeny, look: policy.DenyEmpty, socket: d.Lift == policy.LiftSockets,
		rule: Rule{Class: ClassDefault, Text: d.Text, Source: "default denies"},
	}
	if err := g.bind(b, d.Path); err != nil {
		return err
	}
	if b.obj.end == endUnreachable {
		return nil // the command, the same user, can't reach it either
	}
	g.allDefaults = append(g.allDefaults, b)
	if !g.lifted(b) {
		g.defaults = append(g.defaults, b)
	}
	return nil
}
