package seatbelt

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/seatbelt/sbpl"
)

// srtProfile asks sandbox-runtime for its profile. PINFOLD_SRT is the
// directory that npm installed the package into.
func srtProfile(t *testing.T, v view) *sbpl.Profile {
	t.Helper()
	dir := os.Getenv("PINFOLD_SRT")
	if dir == "" {
		t.Skip("PINFOLD_SRT names no directory with @anthropic-ai/sandbox-runtime in it")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node")
	}
	p := map[string]any{"workspace": "/Users/ann/w", "port": 49152, "allow": []string{}, "readOnly": []string{}}
	add := func(key, path string) { list, _ := p[key].([]string); p[key] = append(list, path) }
	for _, e := range v.entries {
		switch e.Access {
		case guard.ReadWrite:
			add("write", e.Path)
		case guard.ReadOnly:
			add("allow", e.Path)
			add("readOnly", e.Path)
		default:
			add("deny", e.Path)
		}
	}
	for _, s := range v.sockets {
		add("sockets", s.Path)
	}
	policy, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "testdata/srt.mjs", filepath.Join(dir, "node_modules/@anthropic-ai/sandbox-runtime"), string(policy))
	cmd.Stderr = os.Stderr
	line, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return cutProfile(t, string(line))
}

// cutProfile runs the command line with a sandbox-exec that prints -p.
func cutProfile(t *testing.T, line string) *sbpl.Profile {
	t.Helper()
	fake := filepath.Join(t.TempDir(), "fake")
	script := "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -p ] && printf %s \"$2\"; shift; done\n"
	if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	line = strings.Replace(strings.Replace(line, "/usr/bin/sandbox-exec", "sandbox-exec", 1), "sandbox-exec", fake, 1)
	text, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	p, err := sbpl.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBesideSRT evaluates both profiles for one policy; the differences are
// written down, and docs/macos.md says who is right.
func TestBesideSRT(t *testing.T) {
	t.Parallel()
	v := agent()
	theirs := srtProfile(t, v)
	ours, params := build(t, v, options())
	var lines []string
	for _, q := range srtQueries(v) {
		ours := map[bool]string{true: "allows", false: "refuses"}[ask(t, ours, params, q)]
		if theirs := srtAnswer(t, theirs, q); ours != theirs {
			lines = append(lines, strings.TrimSpace(q.Op+" "+q.Path+q.Name+remoteOf(q)+q.Target)+": pinfold "+ours+", srt "+theirs)
		}
	}
	slices.Sort(lines)
	compareGolden(t, "srt_differences.txt", strings.Join(slices.Compact(lines), "\n")+"\n")
}

// srtAnswer is the plain reading's, and what it is if (deny default) doesn't
// reach every operation.
func srtAnswer(t *testing.T, p *sbpl.Profile, q sbpl.Query) string {
	t.Helper()
	var allows [2]bool
	for i, s := range []sbpl.Semantics{sbpl.LastMatch, sbpl.OpenDefault} {
		v, err := p.Eval(q, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		allows[i] = v.Allow
	}
	switch {
	case allows[0]:
		return "allows"
	case allows[1]:
		return "allows, should (deny default) not reach it"
	}
	return "refuses"
}

func remoteOf(q sbpl.Query) string {
	if q.Remote.IsValid() {
		return q.Proto + " " + q.Remote.String()
	}
	if q.Local.IsValid() {
		return q.Proto + " " + q.Local.String()
	}
	return q.Domain
}

// srtQueries are the operations at the places of a policy, and the traps.
func srtQueries(v view) []sbpl.Query {
	var out []sbpl.Query
	for _, e := range v.entries {
		for _, op := range []string{"file-read-data", "file-write-create", "file-write-data", "file-write-unlink"} {
			out = append(out, sbpl.Query{Op: op, Path: e.Path}, sbpl.Query{Op: op, Path: e.Path + "/x"})
		}
	}
	for _, p := range []string{"/Users/ann/w/.ENV", "/Users/ann/w/.git", "/Users/ann/w/x", "/Users/ann/.bashrc", "/private/tmp/x", "/System/Volumes/Data/Users/ann/.ssh/id", "/dev/rdisk0", "/dev/ttys001"} {
		for _, op := range []string{"file-read-data", "file-write-create", "file-write-unlink", "process-exec"} {
			out = append(out, sbpl.Query{Op: op, Path: p})
		}
	}
	for _, n := range []string{"com.apple.SecurityServer", "com.apple.securityd.xpc", "com.apple.coreservices.launchservicesd", "com.apple.trustd.agent", "com.apple.system.opendirectoryd.libinfo", "com.apple.lsd.mapdb", "com.apple.SystemConfiguration.configd"} {
		out = append(out, sbpl.Query{Op: "mach-lookup", Name: n})
	}
	for _, n := range []string{"kern.proc.all", "kern.procargs2", "hw.ncpu", "kern.bootargs"} {
		out = append(out, sbpl.Query{Op: "sysctl-read", Name: n})
	}
	for _, c := range traps() {
		out = append(out, c.q)
	}
	at := netip.MustParseAddrPort
	return append(out,
		sbpl.Query{Op: "ipc-posix-shm-read-data", Name: "/other"}, sbpl.Query{Op: "ipc-posix-shm-read-data", Name: "/psm_1"},
		sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("127.0.0.1:49152")}, sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("192.0.2.1:443")},
		sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at("127.0.0.1:49152")}, sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/Users/ann/tool.sock"},
		sbpl.Query{Op: "user-preference-read"}, sbpl.Query{Op: "distributed-notification-post"}, sbpl.Query{Op: "iokit-open", Name: "RootDomainUserClient"},
		sbpl.Query{Op: "signal", Target: "others"},
	)
}
