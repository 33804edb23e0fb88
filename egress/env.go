package egress

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// ProxyVariable tells `pinfold connect` where the proxy is.
const ProxyVariable = "PINFOLD_PROXY"

// noProxy is the sandbox's own loopback and nothing else: a private network
// that the policy lists is reached through the proxy like everything. "[::1]"
// is left out because it breaks clients that split at colons.
const noProxy = "localhost,127.0.0.1,::1"

// ProxyEnv is the environment that sends everyday programs to the proxy at
// addr ("127.0.0.1:3128", as seen from inside) with no flags. It needs no
// password: whoever can connect to addr is inside.
func ProxyEnv(addr string) []string { return proxyEnv(addr, addr) }

// ProxyEnvAuth is [ProxyEnv] for a proxy that asks for a password. The JVM has
// no property for one, and rsync takes none, so those get the address alone,
// and answer 407.
func ProxyEnvAuth(addr string, p Password) []string {
	return proxyEnv(addr, url.UserPassword(p.User, p.Secret).String()+"@"+addr)
}

// proxyEnv has the proxy's address, and its address with a password if any.
//
// ALL_PROXY names the proxy as an HTTP one, though it speaks SOCKS too. What
// reads ALL_PROXY knows HTTP proxies, and what can't use a SOCKS one breaks at
// the sight of it, even where it wouldn't need it: Python's httpx raises for
// socks5h before 0.28, and for socks5 wherever socksio isn't installed. The
// SOCKS address is in FTP_PROXY, which HTTP clients don't look at, and which
// makes curl's ftp:// work.
func proxyEnv(addr, full string) []string {
	web, socks := "http://"+full, "socks5h://"+full
	env := []string{
		ProxyVariable + "=" + full,
		// Node's own fetch and http modules look at the variables only when
		// told to (Node 22.21, 24.5); older ones ignore this.
		"NODE_USE_ENV_PROXY=1",
		"JAVA_TOOL_OPTIONS=" + javaOptions(addr),
		// rsync daemons, by CONNECT.
		"RSYNC_PROXY=" + addr,
	}
	for _, p := range []struct{ name, value string }{
		{"HTTP_PROXY", web}, {"HTTPS_PROXY", web}, {"ALL_PROXY", web}, {"FTP_PROXY", socks}, {"NO_PROXY", noProxy},
	} {
		env = append(env, p.name+"="+p.value, strings.ToLower(p.name)+"="+p.value)
	}
	slices.Sort(env)
	return env
}

// javaOptions are the system properties that java.net, and what builds on it
// (Gradle, Maven, sbt), are proxied by. The JVM ignores the variables. Its
// default for nonProxyHosts is already the loopback.
func javaOptions(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = addr, "80"
	}
	return "-Dhttp.proxyHost=" + host + " -Dhttp.proxyPort=" + port +
		" -Dhttps.proxyHost=" + host + " -Dhttps.proxyPort=" + port
}

// SSHEnv makes git and rsync reach ssh servers through the proxy, by
// `pinfold connect`. The executable's path must be visible inside; where it
// isn't, leave these variables out.
func SSHEnv(pinfold string) []string {
	// ssh expands % in ProxyCommand and runs it with the user's shell; git
	// runs GIT_SSH_COMMAND with sh. So the path is quoted twice.
	inner := shellQuote(strings.ReplaceAll(pinfold, "%", "%%")) + " connect %h %p"
	ssh := "ssh -o " + shellQuote("ProxyCommand="+inner)
	return []string{"GIT_SSH_COMMAND=" + ssh, "RSYNC_RSH=" + ssh}
}

// shellQuote quotes for sh where that is needed.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-%+,:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ProxyNames are the variables by which programs find a proxy. The caller's
// own never reach a command: what they name can't be reached from inside, and
// they may hold a password.
var ProxyNames = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "SOCKS_PROXY", "GRPC_PROXY", "WS_PROXY", "WSS_PROXY",
	"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy", "socks_proxy", "grpc_proxy", "ws_proxy", "wss_proxy",
	"npm_config_proxy", "npm_config_http_proxy", "npm_config_https_proxy", "npm_config_noproxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	"PIP_PROXY", "CARGO_HTTP_PROXY", "GLOBAL_AGENT_HTTP_PROXY", "GLOBAL_AGENT_HTTPS_PROXY", "RSYNC_PROXY", ProxyVariable,
}

// kept are variables of the wiring that the caller's own value beats: it may
// name a key or an option that the connection needs.
var kept = []string{"GIT_SSH_COMMAND", "RSYNC_RSH"}

// ApplyEnv gives an environment the wiring of [ProxyEnv] and [SSHEnv], or
// none, in place of the caller's proxies. JAVA_TOOL_OPTIONS keeps the caller's
// options first, so that ours win.
func ApplyEnv(env, wiring []string) []string {
	set := map[string]string{}
	for _, kv := range wiring {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	out := make([]string, 0, len(env)+len(wiring))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		_, ours := set[name]
		switch {
		case ours && slices.Contains(kept, name):
			delete(set, name)
			ours = false
		case name == "JAVA_TOOL_OPTIONS" && ours && value != "":
			set[name] = value + " " + set[name]
		}
		if !ours && !slices.Contains(ProxyNames, name) {
			out = append(out, kv)
		}
	}
	for _, kv := range wiring {
		name, _, _ := strings.Cut(kv, "=")
		if value, ok := set[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
