package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pinfold/policy"
)

// environment is the command's: what the caller offers, less what the policy
// withholds, then what the policy sets, then --env.
func (g *gate) environment(dir string) (env, withheld []string, err error) {
	p := g.policy.Env
	vars := map[string]string{}
	offered := splitEnv(g.request.Env)
	for name, value := range offered {
		listed := slices.Contains(p.Secrets, name)
		inherited := g.tier() == policy.TierProcess && !policy.CredentialLike(name)
		if (listed || inherited) && !g.dropped(name) {
			vars[name] = value
		}
	}
	for name, value := range p.Set {
		vars[name] = value
	}
	if err := g.addEnv(vars, offered); err != nil {
		return nil, nil, err
	}
	g.ownEnv(vars, dir)
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if _, set := vars[name]; !set && policy.CredentialLike(name) && !g.dropped(name) {
			withheld = append(withheld, name)
		}
	}
	return joinEnv(vars), withheld, nil
}

// addEnv applies --env: NAME=VALUE, or NAME to pass one of the caller's on.
func (g *gate) addEnv(vars, offered map[string]string) error {
	for _, e := range g.request.EnvAdd {
		name, value, given := strings.Cut(e, "=")
		if name == "" {
			return refuse("env_name", "", nil, "cannot use an --env entry: it has no name", "--env NAME or --env NAME=VALUE")
		}
		if g.dropped(name) {
			return refuse("env_dropped", name, nil, fmt.Sprintf("cannot pass %s on: the policy's env.drop takes it away", name),
				"leave --env "+name+" out, or take it out of env.drop")
		}
		if !given {
			if value, given = offered[name]; !given {
				return refuse("env_unset", name, nil, fmt.Sprintf("cannot pass %s on: it isn't set", name), "--env "+name+"=VALUE")
			}
		}
		vars[name] = value
	}
	return nil
}

// ownEnv sets what depends on the launch itself.
func (g *gate) ownEnv(vars map[string]string, dir string) {
	if g.paths.Home != "" {
		vars["HOME"] = g.paths.Home
	}
	g.paths.Tmp = g.tmpDir(vars["TMPDIR"])
	vars["TMPDIR"] = g.paths.Tmp
	vars["PWD"] = dir
	delete(vars, "OLDPWD")
}

// tmpDir keeps TMPDIR where it lies in a write grant: elsewhere it wouldn't
// exist inside, or couldn't be written.
func (g *gate) tmpDir(dir string) string {
	const private = "/tmp"
	if !isClean(strings.TrimRight(dir, "/")) {
		return private
	}
	o, err := g.fs.lookup(dir)
	if err != nil {
		return private
	}
	defer o.release()
	if o.kind != Dir || !g.lattice.writable(o.path) {
		return private
	}
	return o.path
}

func (g *gate) dropped(name string) bool {
	return slices.ContainsFunc(g.policy.Env.Drop, func(p string) bool { return policy.MatchEnvPattern(p, name) })
}

// splitEnv reads "NAME=value" entries; of two for one name the last counts,
// as in package os/exec. What has no name is left out.
func splitEnv(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			out[name] = value
		}
	}
	return out
}

func joinEnv(vars map[string]string) []string {
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out
}

// lookupEnv finds one variable.
func lookupEnv(env []string, name string) (string, bool) {
	for _, e := range slices.Backward(env) {
		if n, value, ok := strings.Cut(e, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}
