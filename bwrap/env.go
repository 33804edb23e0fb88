package bwrap

import (
	"slices"
	"strings"

	"pinfold/egress"
)

// commandEnv is the command's environment, sorted by name, wired to a proxy
// at addr, or to none when addr is "". pinfold is the path inside of the
// program that carries ssh through the proxy, "" for none.
func commandEnv(env []string, addr, pinfold string) []string {
	var wiring []string
	if addr != "" {
		wiring = egress.ProxyEnv(addr)
		if pinfold != "" {
			wiring = append(wiring, egress.SSHEnv(pinfold)...)
		}
	}
	out := egress.ApplyEnv(env, wiring)
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(envName(a), envName(b)) })
	return out
}

func envName(v string) string {
	name, _, _ := strings.Cut(v, "=")
	return name
}

func envNames(env []string) []string {
	names := make([]string, 0, len(env))
	for _, v := range env {
		names = append(names, envName(v))
	}
	return names
}
