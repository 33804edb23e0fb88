package policy_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold/policy"
)

// samePlaces ignores where things stand: the JSON and the YAML of a policy
// differ in nothing else.
var samePlaces = cmp.Options{
	cmpopts.IgnoreTypes(policy.Position{}),
	cmpopts.IgnoreFields(policy.Policy{}, "Given", "Sources"),
	cmpopts.IgnoreFields(policy.PathRule{}, "Base"),
	cmp.Comparer(func(a, b policy.HostPattern) bool {
		return a.String() == b.String() && a.Text == b.Text && a.Source == b.Source && cmp.Equal(a.TLS, b.TLS)
	}),
}

func fullPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	yes, no := true, false
	host := func(text, source string) policy.HostPattern {
		p := mustHost(t, text)
		p.Source = source
		return p
	}
	ssh := host("ssh.github.com:443", "network.allow[4]")
	ssh.TLS, ssh.Budget = &no, policy.Budget{BytesUp: 5 << 20, Connections: 9, Hosts: 1}
	want := &policy.Policy{
		Version: 1, Extends: []string{"preset:go"}, Tier: policy.TierProcess,
		Write: []policy.PathRule{
			{Text: "~/.cache/go-build", Optional: true, Source: "write[0]"},
			{Text: "~/go/pkg/mod", Optional: true, Source: "write[1]"},
			{Text: "~/go/pkg/sumdb", Optional: true, Source: "write[2]"},
			{Text: "{workspace}", Source: "write[0]"},
			{Text: "~/.cache/go-build", Optional: true, Source: "write[1]"},
			{Text: "/w/[x]", Literal: true, Source: "write[2]"},
		},
		Read: policy.Read{
			Base:  policy.BaseHost,
			Deny:  []policy.PathRule{{Text: "~/.config/op", Source: "read.deny[0]"}, {Text: "~/.foo", As: policy.DenyEmpty, Source: "read.deny[1]"}},
			Allow: []policy.PathRule{{Text: "~/.ssh/known_hosts", Source: "read.allow[0]"}},
		},
		ReadOnly:       []policy.PathRule{{Text: "{workspace}/vendor", Source: "read_only[0]"}, {Text: "./policies", Source: "read_only[1]"}},
		GuardWorkspace: policy.GuardWorkspace{Except: []string{".vscode"}},
		HardLinks:      policy.HardLinks{AllowFrom: []policy.PathRule{{Text: "~/.local/share/pnpm/store", Source: "hard_links.allow_from[0]"}}},
		Sockets:        []policy.PathRule{{Text: "{toolbelt}", Source: "sockets[0]"}},
		UnixSockets:    policy.SocketsListed,
		Env:            policy.Env{Set: map[string]string{"CI": "1"}, Drop: []string{"FOO_*"}, Secrets: []string{"ANTHROPIC_API_KEY"}},
		Limits: policy.Limits{
			CPUs: 2, Memory: 4 << 30, PIDs: 512, Files: 4096, FileSize: 2 << 30, Tmp: 1024, Timeout: 30 * time.Minute, IdleTimeout: 65 * time.Minute,
		},
		Require: []string{"netns", "seccomp_notify", "landlock>=4"},
		Container: policy.Container{
			Runtime: "docker", Context: "default", Image: "agent@sha256:0123",
			Build:  &policy.Build{Base: "node:22-slim", Install: []string{"npm i -g tool"}},
			Mounts: []policy.ContainerMount{{Source: policy.PathRule{Text: "{workspace}/docs", Source: "container.mounts[0].source"}, Target: "/kb", Mode: "ro"}},
		},
	}
	want.Network = policy.Network{
		Allow: []policy.HostPattern{
			host("proxy.golang.org:443", "network.allow[0]"), host("sum.golang.org:443", "network.allow[1]"),
			host("api.anthropic.com", "network.allow[0]"), host("github.com:443", "network.allow[1]"),
			host("*.githubusercontent.com", "network.allow[2]"), host("10.1.0.0/16:5432", "network.allow[3]"), ssh,
		},
		Deny: []policy.HostPattern{host("gist.github.com", "network.deny[0]"), host("*:25", "network.deny[1]")},
		Mode: policy.ModeAuto, VerifyTLSName: &yes, HostPorts: []uint16{5432},
		Expose: []policy.Expose{
			{Outside: 3000, Inside: 3000, Text: "3000"},
			{Outside: 8080, Inside: 80, Text: "8080:80"},
			{Address: "127.0.0.1", Outside: 9000, Inside: 90, Text: "127.0.0.1:9000:90"},
			{Address: "::1", Outside: 7000, Inside: 7000, Text: "[::1]:7000"},
		},
		Budget: policy.Budget{BytesUp: 50 << 20, Connections: 1000, Hosts: 20}, Upstream: "env",
	}
	return want
}

func TestLoadEveryField(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/full.jsonc", "testdata/full.yaml"} {
		p, err := policy.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fullPolicy(t), p, samePlaces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		dir, _ := filepath.Abs("testdata")
		if p.ReadOnly[1].Base != dir {
			t.Errorf("%s: \"./\" starts at %q", file, p.ReadOnly[1].Base)
		}
		if len(p.Sources) != 1 || p.Sources[0].File != filepath.Join(dir, filepath.Base(file)) {
			t.Errorf("%s: sources %v", file, p.Sources)
		}
	}
}

func TestParsePositions(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]map[string][2]int{
		"testdata/full.jsonc": {
			"network.mode": {16, 15}, "limits.cpus": {25, 14}, "network.allow.tls": {14, 56}, "env.set": {24, 11},
			"container.build.base": {28, 27}, "guard_workspace.except": {11, 23}, "network": {13, 3}, "read.deny.as": {8, 59},
		},
		"testdata/full.yaml": {"network.mode": {32, 3}, "limits.cpus": {46, 3}, "network.allow.tls": {29, 7}, "read.deny.as": {14, 7}},
	} {
		p, err := policy.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, place := range want {
			got := p.Given[name]
			if got.File != file || got.Line != place[0] || got.Column != place[1] {
				t.Errorf("%s: %s is given at %v, want %v", file, name, got, place)
			}
		}
		if at := p.Write[3].At; at.Line == 0 || at.File != file {
			t.Errorf("%s: a path stands at %v", file, at)
		}
	}
}

func TestParseTheEmptyPolicy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{}", "{\n}\n", "// c\n{} /* d */ // e", "\xef\xbb\xbf{}", "{} // no newline"} {
		p, err := policy.Parse([]byte(text), "p.json")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(&policy.Policy{Version: 1}, p, samePlaces); diff != "" || len(p.Given) != 0 {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"{}", "---\n{}\n", "\xef\xbb\xbf{}", "# c\n{}\n...\n"} {
		if _, err := policy.Parse([]byte(text), "p.yaml"); err != nil {
			t.Errorf("yaml %q: %v", text, err)
		}
	}
}

// want is one error: the first line of a ParseErrors' text.
type badDocument struct{ text, want string }

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]badDocument{
		"empty":            {"", `p.json: cannot use the document: it is empty; write {} if nothing is meant`},
		"blank":            {" \n\t", `p.json: cannot use the document: it is empty; write {} if nothing is meant`},
		"only a comment":   {"// x\n", `p.json: cannot use the document: it is empty; write {} if nothing is meant`},
		"open comment":     {"/* x\n{}", `p.json:1:1: cannot use the document: it ends too early: a bracket, quote or comment is still open`},
		"binary":           {"{\x00}", `p.json: cannot use the document: it is binary: it holds a NUL byte`},
		"elf":              {"\x7fELF\x02\x01\x01\x80", `p.json:1:8: cannot use the document: it is binary, or not written in UTF-8`},
		"utf-16":           {"\xff\xfe{\x00}\x00", `p.json: cannot use the document: it is written in UTF-16; save it as UTF-8`},
		"half a document":  {"{\n \"write\": [", `p.json:2:12: cannot use the document: it ends too early: a bracket, quote or comment is still open`},
		"not json":         {"{ not json\n", `p.json:1:3: cannot use the document: invalid literal: not`},
		"after the end":    {"{}\n{}", `p.json:2:1: cannot use the document: invalid character '{' after top-level value`},
		"place after ☃":    {"{\"☃☃\" x}", `p.json:1:7: cannot use the document: invalid character 'x' after object name`},
		"a list":           {"[]", `p.json:1:1: cannot use the document: it is a list and must be an object`},
		"null":             {"null", `p.json:1:1: cannot use the document: it is null and must be an object; leave the field out`},
		"unknown field":    {"{\n  \"wrte\": []}", `p.json:2:3: cannot use wrte: there is no such field; did you mean "write"?`},
		"upper case":       {`{"Write": []}`, `p.json:1:2: cannot use Write: there is no such field; did you mean "write"?`},
		"unknown deep":     {`{"network": {"alow": []}}`, `p.json:1:14: cannot use network.alow: there is no such field; did you mean "allow"?`},
		"unknown, far":     {`{"sandbox": {}}`, `p.json:1:2: cannot use sandbox: there is no such field`},
		"duplicate":        {"{\"write\": [],\n\"write\": []}", `p.json:2:1: cannot use write: it stands there twice, first in line 1`},
		"duplicate deep":   {`{"limits": {"pids": 1, "pids": 2}}`, `p.json:1:24: cannot use limits.pids: it stands there twice, first in line 1`},
		"duplicate env":    {`{"env": {"set": {"A": "1", "A": "2"}}}`, `p.json:1:28: cannot use env.set.A: it stands there twice`},
		"string for list":  {`{"write": "/a"}`, `p.json:1:11: cannot use write: it is a string and must be a list; write ["/a"]`},
		"null for list":    {`{"write": null}`, `p.json:1:11: cannot use write: it is null and must be a list; leave the field out`},
		"number for host":  {`{"network": {"allow": [3]}}`, `p.json:1:24: cannot use network.allow[0]: it is a number and must be a host`},
		"number in list":   {`{"write": ["/a", 1]}`, `p.json:1:18: cannot use write[1]: it is a number and must be a path`},
		"list for object":  {`{"network": ["a.example"]}`, `p.json:1:13: cannot use network: it is a list and must be an object`},
		"number for text":  {`{"limits": {"timeout": 30}}`, `p.json:1:24: cannot use limits.timeout: it is a number and must be a string; write "30s" or "30m"`},
		"a year too long":  {`{"limits": {"timeout": 999999}}`, `p.json:1:24: cannot use limits.timeout: it is a number and must be a string; write "90s", "30m" or "1h30m"`},
		"number for word":  {`{"container": {"image": 5}}`, `p.json:1:25: cannot use container.image: it is a number and must be a string; write "5"`},
		"text for bool":    {`{"network": {"verify_tls_name": "yes"}}`, `p.json:1:33: cannot use network.verify_tls_name: it is a string and must be a boolean`},
		"version 2":        {`{"version": 2}`, `p.json:1:13: cannot use version: 2 is no whole number from 1 to 1`},
		"version text":     {`{"version": "1"}`, `p.json:1:13: cannot use version: it is a string and must be a number`},
		"tier":             {`{"tier": "proces"}`, `p.json:1:10: cannot use tier: "proces" is none of process, container; did you mean "process"?`},
		"pattern":          {`{"write": ["/w/*"]}`, `p.json:1:12: cannot use write[0]: "/w/*": it holds a pattern character (one of * ? [ ] { }), and patterns are not expanded; name the folder, or write {"path": "/…", "literal": true} if the path really holds it`},
		"relative":         {`{"write": ["src"]}`, `p.json:1:12: cannot use write[0]: "src": it is relative; write "./src" for a path beside the file it stands in, or "{workspace}/src"`},
		"relative, up":     {`{"write": ["../x"]}`, `p.json:1:12: cannot use write[0]: "../x": it is relative; write "./../x" for a path that starts from the file it stands in, or the whole path`},
		"relative, dots":   {`{"write": ["a/../x"]}`, `p.json:1:12: cannot use write[0]: "a/../x": it holds ".."; write the path that is meant without ".."`},
		"relative for all": {`{"write": "src"}`, `p.json:1:11: cannot use write: it is a string and must be a list; put it in brackets, as a list`},
		"dots":             {`{"write": ["{workspace}/../x"]}`, `p.json:1:12: cannot use write[0]: "{workspace}/../x": it holds ".."; write the path that is meant without ".."`},
		"placeholder":      {`{"write": ["{work}/x"]}`, `p.json:1:12: cannot use write[0]: "{work}/x": it starts with the unknown placeholder "{work}"; the placeholders are {workspace}, {run}, {toolbelt} and {home}`},
		"variable":         {`{"write": ["$HOME/x"]}`, `p.json:1:12: cannot use write[0]: "$HOME/x": environment variables are not expanded in paths; write "~/…" for the home, or the whole path`},
		"nul":              {`{"write": ["/a\u0000b"]}`, `p.json:1:12: cannot use the document: a string holds a NUL byte`},
		"half a pair":      {`{"write": ["/a\ud800b"]}`, `p.json:1:12: cannot use the document: a string holds half a surrogate pair`},
		"literal relative": {`{"write": [{"path": "./[x]", "literal": true}]}`, `p.json:1:21: cannot use write[0]: "./[x]": a literal path is absolute`},
		"literal unset":    {`{"write": [{"path": "/w/[x]", "literal": false}]}`, `p.json:1:21: cannot use write[0]: "/w/[x]": it holds a pattern character (one of * ? [ ] { }), and patterns are not expanded; name the folder, or write {"path": "/…", "literal": true} if the path really holds it`},
		"no path":          {`{"write": [{"literal": true}]}`, `p.json:1:12: cannot use write[0]: it has no "path"`},
		"as in write":      {`{"write": [{"path": "/a", "as": "empty"}]}`, `p.json:1:27: cannot use write[0].as: there is no such field`},
		"as":               {`{"read": {"deny": [{"path": "/a", "as": "emty"}]}}`, `p.json:1:41: cannot use read.deny[0].as: "emty" is none of error, empty; did you mean "empty"?`},
		"optional deny":    {`{"read": {"deny": ["?/a"]}}`, `p.json:1:20: cannot use read.deny[0]: "?/a": a deny needs no "?"; a missing path is denied as it is`},
		"allow star":       {`{"network": {"allow": ["*"]}}`, `p.json:1:24: cannot use network.allow[0]: "*": "*" would allow everything and stands in deny lists only; list the hosts that are meant`},
		"allow suffix":     {`{"network": {"allow": ["a.example", "*.co.uk"]}}`, `p.json:1:37: cannot use network.allow[1]: "*.co.uk": anybody can register a name beneath this public suffix; list the hosts that are meant`},
		"allow url":        {`{"network": {"allow": [{"host": "https://a.example/"}]}}`, `p.json:1:33: cannot use network.allow[0].host: "https://a.example/": it is a URL; write "a.example:443"`},
		"deny object":      {`{"network": {"deny": [{"host": "a.example"}]}}`, `p.json:1:23: cannot use network.deny[0]: it is an object and must be a string`},
		"port":             {`{"network": {"host_ports": [65536]}}`, `p.json:1:29: cannot use network.host_ports[0]: 65536 is no whole number from 1 to 65535`},
		"port fraction":    {`{"network": {"host_ports": [1.5]}}`, `p.json:1:29: cannot use network.host_ports[0]: 1.5 is no whole number from 1 to 65535`},
		"expose":           {`{"network": {"expose": ["80:80:80"]}}`, `p.json:1:25: cannot use network.expose[0]: "80:80:80": it is no port to expose; write "3000", "8080:80" (outside:inside) or "127.0.0.1:8080:80"`},
		"expose number":    {`{"network": {"expose": [80]}}`, `p.json:1:25: cannot use network.expose[0]: it is a number and must be a string; write "80"`},
		"upstream secret":  {`{"network": {"upstream": "http://u:p@proxy:1"}}`, `p.json:1:26: cannot use network.upstream: "http://u:p@proxy:1": a policy holds no user name or password; write the URL without them`},
		"upstream":         {`{"network": {"upstream": "proxy:3128"}}`, `p.json:1:26: cannot use network.upstream: "proxy:3128": it is no proxy; write "env" or a URL such as "http://proxy.example:3128"`},
		"size upper":       {`{"limits": {"memory": "4GiB"}}`, `p.json:1:23: cannot use limits.memory: "4GiB": it is no size above zero; write "4g"`},
		"size zero":        {`{"limits": {"memory": 0}}`, `p.json:1:23: cannot use limits.memory: 0 is no whole number from 1 to 999999999999999`},
		"size text zero":   {`{"limits": {"memory": "0"}}`, `p.json:1:23: cannot use limits.memory: "0": it is no size above zero; write bytes, or a number with k, m or g: "512m"`},
		"duration":         {`{"limits": {"timeout": "30"}}`, `p.json:1:24: cannot use limits.timeout: "30": it is no duration; write "30s" or "30m"`},
		"duration zero":    {`{"limits": {"timeout": "0s"}}`, `p.json:1:24: cannot use limits.timeout: "0s": it is shorter than a millisecond or longer than a year; leave the field out for no limit`},
		"negative":         {`{"limits": {"pids": -1}}`, `p.json:1:21: cannot use limits.pids: -1 is no whole number from 1 to 4194304`},
		"cpus":             {`{"limits": {"cpus": 0.001}}`, `p.json:1:21: cannot use limits.cpus: 0.001 is no number from 0.01 to 8192`},
		"huge number":      {`{"limits": {"cpus": 1e999999999}}`, `p.json:1:21: cannot use limits.cpus: 1e999999999 is no number of a sensible size`},
		"env name":         {`{"env": {"set": {"A=B": "1"}}}`, `p.json:1:18: cannot use env.set.A=B: it is no name of an environment variable`},
		"env number":       {`{"env": {"set": {"A": 1}}}`, `p.json:1:23: cannot use env.set.A: it is a number and must be a string; write "1"`},
		"secrets pattern":  {`{"env": {"secrets": ["*"]}}`, `p.json:1:22: cannot use env.secrets[0]: "*": it is no name of an environment variable`},
		"drop pattern":     {`{"env": {"drop": ["A*B"]}}`, `p.json:1:19: cannot use env.drop[0]: "A*B": it is no name of an environment variable, nor the start of one and a "*"`},
		"secret and set":   {`{"env": {"set": {"T": "x"}, "secrets": ["T"]}}`, `p.json:1:29: cannot use env.secrets: "T" is set in env.set too, where every plan shows it`},
		"require":          {`{"require": ["landlock>4"]}`, `p.json:1:14: cannot use require[0]: "landlock>4": it is no requirement; write a layer's name: "netns", "landlock>=4"`},
		"guard":            {`{"guard_workspace": "no"}`, `p.json:1:21: cannot use guard_workspace: it is a string and must be true, false or an object`},
		"guard except":     {`{"guard_workspace": {"except": ["/etc"]}}`, `p.json:1:33: cannot use guard_workspace.except[0]: "/etc": it is no name beneath the workspace; write ".vscode" or ".git/config"`},
		"hard links":       {`{"hard_links": "allow"}`, `p.json:1:16: cannot use hard_links: "allow" is none of refuse; write "refuse", or {"allow_from": ["~/.local/share/pnpm/store"]} with the stores that are meant`},
		"build mixed":      {`{"container": {"build": {"base": "a", "dockerfile": "./D"}}}`, `p.json:1:25: cannot use container.build: it is none of its three forms; give base and install, or dockerfile_inline, or dockerfile`},
		"build base alone": {`{"container": {"build": {"base": "a"}}}`, `p.json:1:25: cannot use container.build: it is none of its three forms; give base and install, or dockerfile_inline, or dockerfile`},
		"build empty":      {`{"container": {"build": {}}}`, `p.json:1:25: cannot use container.build: it is none of its three forms; give base and install, or dockerfile_inline, or dockerfile`},
		"mount":            {`{"container": {"mounts": [{"source": "/a"}]}}`, `p.json:1:27: cannot use container.mounts[0]: it has no "target"`},
		"mount root":       {`{"container": {"mounts": [{"source": "/a", "target": "//"}]}}`, `p.json:1:54: cannot use container.mounts[0].target: "//": nothing can be mounted over the whole root`},
		"runtime":          {`{"container": {"runtime": "lxc"}}`, `p.json:1:27: cannot use container.runtime: "lxc" is none of docker, podman, runc, crun`},
		"preset":           {`{"extends": ["preset:goo"]}`, `p.json:1:14: cannot use extends[0]: "preset:goo": there is no such preset; did you mean "go"?`},
		"extends":          {`{"extends": ["base.json"]}`, `p.json:1:14: cannot use extends[0]: "base.json": it is neither a file nor a preset; write "./base.json" for a file beside this one, an absolute path, or a preset such as "preset:go"`},
		"extends a file":   {`{"extends": ["./base.json"]}`, `p.json:1:14: cannot use extends[0]: "./base.json": only a policy that is itself a file can extend one`},
		"nested":           {strings.Repeat("[", 100), `p.json:1:65: cannot use the document: it is nested more than 64 levels deep`},
		"nested a lot":     {strings.Repeat(`{"a":`, 200_000), `p.json:1:321: cannot use the document: it is nested more than 64 levels deep`},
		"large":            {"{}" + strings.Repeat(" ", 1<<20), `p.json: cannot use the document: it is larger than 1 MiB`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse([]byte(tt.text), "p.json")
			if p != nil || err == nil {
				t.Fatalf("Parse(%q) = %+v, want an error", tt.text, p)
			}
			if got, _, _ := strings.Cut(err.Error(), "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseRefusesYAML(t *testing.T) {
	t.Parallel()
	tests := map[string]badDocument{
		"empty":           {"# nothing\n", `p.yaml: cannot use the document: it is empty; write {} if nothing is meant`},
		"unknown":         {"write:\n  - /a\nwrit: []\n", `p.yaml:3:1: cannot use writ: there is no such field; did you mean "write"?`},
		"duplicate":       {"write: []\nwrite: []\n", `p.yaml:2:1: cannot use write: it stands there twice, first in line 1`},
		"type":            {"write: /a\n", `p.yaml:1:8: cannot use write: it is a string and must be a list; write ["/a"]`},
		"placeholder":     {"write: [{workspace}]\n", `p.yaml:1:10: cannot use write[0].workspace: there is no such field; quote it: "{workspace}"`},
		"tilde alone":     {"write: [~]\n", `p.yaml:1:9: cannot use write[0]: it is null and must be a path; leave the field out`},
		"two documents":   {"{}\n---\n{}\n", `p.yaml:3:1: cannot use the document: it holds more than one document`},
		"anchor":          {"write: &a [/a]\nread_only: *a\n", `p.yaml:1:8: cannot use the document: anchors, aliases, tags, merge keys and special numbers are not supported; write the value itself; quote what starts with & * or !`},
		"tag":             {"version: !!int 1\n", `p.yaml:1:10: cannot use the document: anchors, aliases, tags, merge keys and special numbers are not supported; write the value itself; quote what starts with & * or !`},
		"number":          {"network: {host_ports: [0x50]}\n", `p.yaml:1:24: cannot use the document: "0x50" is no plain decimal number; quote it if a string is meant`},
		"octal":           {"network: {host_ports: [0123]}\n", `p.yaml:1:24: cannot use the document: "0123" is no plain decimal number; quote it if a string is meant`},
		"bool":            {"guard_workspace: yes\n", `p.yaml:1:18: cannot use guard_workspace: it is a string and must be true, false or an object`},
		"number as text":  {"limits: {timeout: 30}\n", `p.yaml:1:19: cannot use limits.timeout: it is a number and must be a string; write "30s" or "30m"`},
		"nested":          {"a: " + strings.Repeat("[", 500), `p.yaml:1:68: cannot use the document: it is nested more than 64 levels deep`},
		"large":           {"#" + strings.Repeat(" ", 256<<10), `p.yaml: cannot use the document: it is larger than 256 KiB or has more than 20000 fields, too much for YAML; write it as JSON`},
		"fields":          {strings.Repeat("a: b\n", 20_001), `p.yaml: cannot use the document: it is larger than 256 KiB or has more than 20000 fields, too much for YAML; write it as JSON`},
		"indented":        {"read:\n  deny:\n    - /a\n      - /b\n", `p.yaml:4:11: cannot use the document: a string runs over several lines without quotes; check the indentation of what follows, or quote it`},
		"nested dashes":   {strings.Repeat("- ", 5000), `p.yaml:1:257: cannot use the document: it is nested more than 64 levels deep`},
		"number as a key": {"env: {set: {1: a}}\n", `p.yaml:1:13: cannot use the document: a field's name is a plain string; quote it`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse([]byte(tt.text), "p.yaml")
			if p != nil || err == nil {
				t.Fatalf("Parse(%q) = %+v, want an error", tt.text, p)
			}
			if got, _, _ := strings.Cut(err.Error(), "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	for _, text := range []string{"a: [", "\t- x", "network: {allow: [*.github.com]}", "a: b: c", ": x", "? [a]\n: b", "<<: {}\n", "a: \"x"} {
		if p, err := policy.Parse([]byte(text), "p.yml"); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", text, p)
		} else if e, _ := errors.AsType[*policy.ParseError](err); e.At.Line == 0 {
			t.Errorf("Parse(%q): %v names no place", text, err)
		}
	}
}

// TestParseYAMLLayouts: the same two denies, as people lay them out.
func TestParseYAMLLayouts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"read:\n  deny:\n    - /a\n    - /b c\n", "read:\n  deny:\n  - /a\n  - /b c", "read:\r\n  deny:\r\n  - /a\r\n  - /b c\r\n",
		"---\nread: {deny: [/a, /b c]}\n...\n", "read:\n  deny: [/a, # one\n    '/b c',\n  ]\n", "{\"read\": {\"deny\": [\"/a\", \"/b c\"]}}",
		"# x\nread :\n  deny:\n    - /a # one\n\n  # two\n    - \"/b\\x20c\"\n", "read:\n  deny:\n    - |-\n      /a\n    - >-\n      /b\n      c\n",
		"read:\n  deny:\n    - \"/a\"\n    - path: /b c\n      literal: true\n",
	} {
		p, err := policy.Parse([]byte(text), "p.yaml")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff([]string{"/a", "/b c"}, texts(p.Read.Deny)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseReportsSeveralErrors(t *testing.T) {
	t.Parallel()
	_, err := policy.Parse([]byte(`{"wrte": [], "write": [1, "/ok", "no"], "limits": {"pids": 0}}`), "")
	errs, ok := errors.AsType[policy.ParseErrors](err)
	if !ok {
		t.Fatalf("got %T, want ParseErrors", err)
	}
	var fields []string
	for _, e := range errs {
		fields = append(fields, e.Field)
	}
	if diff := cmp.Diff([]string{"wrte", "write[0]", "write[2]", "limits.pids"}, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := errs.Refusal()
	if !errors.Is(r, policy.ErrDenied) || r.Code != "policy_invalid" || !strings.HasSuffix(r.Why, "(and 3 more)") || r.Fix == "" {
		t.Errorf("refusal %+v", r)
	}
	if one, ok := errors.AsType[*policy.ParseError](r); !ok || one.Field != "wrte" {
		t.Errorf("the refusal hides its cause: %v", one)
	}
	many := `{"write": [` + strings.Repeat("1,", 5000) + `]}`
	if _, err := policy.Parse([]byte(many), ""); strings.Count(err.Error(), "\n") > 20 {
		t.Errorf("5000 errors answer with %d lines", strings.Count(err.Error(), "\n"))
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large.json")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 100<<20); err != nil { // sparse
		t.Fatal(err)
	}
	tests := map[string]string{
		filepath.Join(dir, "none.json"): "there is no such file",
		dir:                             "it is a directory",
		large:                           "it is larger than 1 MiB",
		filepath.Join(large, "x"):       "not a directory",
		"a\x00b":                        "invalid argument",
	}
	for path, want := range tests {
		p, err := policy.Load(path)
		if p != nil || err == nil || !strings.HasSuffix(err.Error(), ": cannot use the document: "+want) {
			t.Errorf("Load(%q) = %v, %v; want %q", path, p, err, want)
		}
	}
	if _, err := policy.Load(filepath.Join(dir, "none.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is no fs.ErrNotExist", err)
	}
}

func TestParseTenThousandDenies(t *testing.T) {
	t.Parallel()
	text := `{"read": {"deny": [` + strings.Repeat(`"/some/where/else",`, 10_000) + `]}}`
	start := time.Now()
	p, err := policy.Parse([]byte(text), "p.json")
	if err != nil || len(p.Read.Deny) != 10_000 {
		t.Fatal(err)
	}
	if p.Read.Deny[9_999].Source != "read.deny[9999]" || p.Read.Deny[9_999].At.Line != 1 {
		t.Errorf("the last entry is %+v", p.Read.Deny[9_999])
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
