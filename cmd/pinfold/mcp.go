package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"pinfold/egress"
	"pinfold/policy"
)

// maxMCP bounds a file of servers.
const maxMCP = 1 << 20

// mcpServer is one server of a client's configuration (.mcp.json and its
// like): spoken to through a pipe (command), or by HTTP (url).
type mcpServer struct {
	Command string `json:"command"`
	Type    string `json:"type"`
	URL     string `json:"url"`
}

// readMCP reads the servers that a client is configured with.
func readMCP(file string) (map[string]mcpServer, error) {
	text, err := readBounded(file, maxMCP)
	if err != nil {
		return nil, fmt.Errorf("cannot read the servers in %q: %w", file, cause(err))
	}
	var doc struct {
		Servers map[string]mcpServer `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("cannot read the servers in %q: %w", file, err)
	}
	return doc.Servers, nil
}

// mcpWarnings say which servers a command can't reach under a policy, and why.
func mcpWarnings(pol *policy.Policy, servers map[string]mcpServer) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if why := mcpUnreachable(pol, servers[name]); why != "" {
			out = append(out, fmt.Sprintf("server %q: %s", name, why))
		}
	}
	return out
}

func mcpUnreachable(pol *policy.Policy, s mcpServer) string {
	if s.URL == "" {
		if pol.Tier != policy.TierContainer {
			return "" // it is started inside, by its client
		}
		return fmt.Sprintf("%q is spoken to through a pipe, which can't cross a container's boundary: the image has to have it, or it has to be served by HTTP (network.host_ports)", s.Command)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "its URL can't be read"
	}
	port := portOf(u)
	if isLoopback(u.Hostname()) {
		if slices.Contains(pol.Network.HostPorts, port) || egressAllows(pol, u.Hostname(), port) {
			return ""
		}
		return fmt.Sprintf(`it listens on this machine's loopback, which isn't the command's: "host_ports": [%d]`, port)
	}
	if egressAllows(pol, u.Hostname(), port) {
		return ""
	}
	return fmt.Sprintf("network.allow has no %s", net.JoinHostPort(u.Hostname(), strconv.Itoa(int(port))))
}

func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func egressAllows(pol *policy.Policy, host string, port uint16) bool {
	return egress.NewDecider(pol.Network).Decide(egress.Target{Host: host, Port: port}).Allowed
}
