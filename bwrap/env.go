package bwrap

import (
	"slices"
	"strings"
)

// proxyNames are the variables by which programs find a proxy. The caller's
// own never reach the command: what they name can't be reached from inside,
// and they may hold a password.
var proxyNames = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY",
	"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy",
}

// localNames are reached without the proxy: the sandbox has a loopback of its
// own, which the supervisor isn't on.
const localNames = "localhost,127.0.0.1,::1"

// commandEnv is the command's environment, sorted by name, with the proxy
// variables for a proxy at addr, or none when addr is "".
func commandEnv(env []string, addr string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return slices.Contains(proxyNames, envName(v))
	})
	if addr != "" {
		url := "http://" + addr
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			out = append(out, name+"="+url)
		}
		out = append(out, "NO_PROXY="+localNames, "no_proxy="+localNames)
	}
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
