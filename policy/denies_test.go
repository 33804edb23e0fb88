package policy_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

func denyAt(denies []policy.DefaultDeny, target string) *policy.DefaultDeny {
	i := slices.IndexFunc(denies, func(d policy.DefaultDeny) bool { return d.Path == target })
	if i < 0 {
		return nil
	}
	return &denies[i]
}

func TestDefaultDenies(t *testing.T) {
	t.Parallel()
	user := policy.DefaultContext{GOOS: "linux", UID: 1000, Home: "/home/u"}
	moved := policy.DefaultContext{GOOS: "linux", UID: 7, Home: "/home/u", RuntimeDir: "/srv/rt/", SSHAuthSock: "/home/u/a.sock", ConfigHome: "/srv/conf", DataHome: "/srv/data"}
	root := policy.DefaultContext{GOOS: "linux", Home: "/root"}
	mac := policy.DefaultContext{GOOS: "darwin", UID: 501, Home: "/Users/u", RuntimeDir: "/rt", SSHAuthSock: "/private/tmp/s"}
	macRoot := policy.DefaultContext{GOOS: "darwin", Home: "/var/root"}
	tests := []struct {
		ctx  policy.DefaultContext
		path string
		kind policy.DenyKind // "" for not denied
		text string
	}{
		{user, "/home/u/.ssh", policy.KindCredential, "~/.ssh"},
		{user, "/home/u/.docker/config.json", policy.KindCredential, "~/.docker/config.json"},
		{user, "/home/u/.config/google-chrome", policy.KindCredential, "~/.config/google-chrome"},
		{user, "/home/u/.bash_history", policy.KindCredential, "~/.bash_history"},
		{user, "/run/user/1000", policy.KindEscapeSocket, "/run/user/1000"},
		{user, "/run/docker.sock", policy.KindEscapeSocket, "/run/docker.sock"},
		{user, "/run/systemd/resolve", policy.KindEscapeSocket, "/run/systemd/resolve"},
		{user, "/etc/shadow", "", ""},
		{user, "/home/u/Library/Keychains", "", ""},
		{moved, "/srv/rt", policy.KindEscapeSocket, "$XDG_RUNTIME_DIR"},
		{moved, "/run/user/7", policy.KindEscapeSocket, "/run/user/7"},
		{moved, "/home/u/a.sock", policy.KindEscapeSocket, "$SSH_AUTH_SOCK"},
		{moved, "/srv/conf/gh", policy.KindCredential, "/srv/conf/gh"},
		{moved, "/home/u/.config/gh", policy.KindCredential, "~/.config/gh"},
		{moved, "/srv/data/keyrings", policy.KindCredential, "/srv/data/keyrings"},
		{root, "/etc/shadow", policy.KindSystem, "/etc/shadow"},
		{root, "/etc/ssh/ssh_host_ed25519_key", policy.KindSystem, "/etc/ssh/ssh_host_ed25519_key"},
		{root, "/var/lib/kubelet", policy.KindSystem, "/var/lib/kubelet"},
		{root, "/root/.ssh", policy.KindCredential, "~/.ssh"},
		{root, "/run/user/0", policy.KindEscapeSocket, "/run/user/0"},
		{mac, "/Users/u/Library/Keychains", policy.KindCredential, "~/Library/Keychains"},
		{mac, "/Library/Keychains", policy.KindCredential, "/Library/Keychains"},
		{mac, "/var/db/dslocal", "", ""},
		{macRoot, "/var/db/dslocal", policy.KindSystem, "/var/db/dslocal"},
		{macRoot, "/etc/master.passwd", policy.KindSystem, "/etc/master.passwd"},
		{macRoot, "/etc/shadow", "", ""},
		{mac, "/private/tmp/s", policy.KindEscapeSocket, "$SSH_AUTH_SOCK"},
		{mac, "/rt", "", ""},
		{mac, "/run/dbus/system_bus_socket", "", ""},
	}
	for _, tt := range tests {
		d := denyAt(policy.DefaultDenies(tt.ctx), tt.path)
		if d == nil {
			if tt.kind != "" {
				t.Errorf("%s: %s is not denied", tt.ctx.GOOS, tt.path)
			}
			continue
		}
		lift := policy.LiftReadAllow
		if d.Kind == policy.KindEscapeSocket {
			lift = policy.LiftSockets
		}
		if d.Kind != tt.kind || d.Text != tt.text || d.Lift != lift {
			t.Errorf("%s: got %+v, want kind %q, text %q", tt.path, *d, tt.kind, tt.text)
		}
	}
}

func TestDefaultDeniesAreCleanAndOnce(t *testing.T) {
	t.Parallel()
	for _, goos := range []string{"linux", "darwin"} {
		seen := map[string]bool{}
		for _, d := range policy.DefaultDenies(policy.DefaultContext{GOOS: goos, Home: "/home/u", RuntimeDir: "/run/user/0", ConfigHome: "/home/u/.config"}) {
			if !path.IsAbs(d.Path) || path.Clean(d.Path) != d.Path || d.Path == "/" || d.Path == "/home/u" || seen[d.Path] {
				t.Errorf("%s: %q is relative, unclean, too wide or repeated", goos, d.Path)
			}
			seen[d.Path] = true
		}
	}
}

func TestDefaultDeniesIgnoreVariablesThatNameNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "/", "relative", "//", "/.."} {
		ctx := policy.DefaultContext{GOOS: "linux", UID: 1, Home: "/h", RuntimeDir: value, SSHAuthSock: value, ConfigHome: "/c"}
		for _, d := range policy.DefaultDenies(ctx) {
			if strings.HasPrefix(d.Text, "$") {
				t.Errorf("the value %q denies %q", value, d.Path)
			}
		}
	}
	for _, d := range policy.DefaultDenies(policy.DefaultContext{GOOS: "linux"}) {
		if strings.HasPrefix(d.Text, "~") {
			t.Errorf("without a home, %q is %q", d.Text, d.Path)
		}
	}
}

func TestGuardedNamesAreRelativeAndClean(t *testing.T) {
	t.Parallel()
	names := policy.GuardedWorkspaceNames()
	all := slices.Concat(names.Top, names.GitDir, names.GitModule, names.GitWorktree, names.Home)
	for _, agent := range names.Agents {
		for _, name := range agent.Names {
			all = append(all, path.Join(agent.Dir, name))
		}
	}
	for _, name := range all {
		if path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "..") || strings.ContainsAny(name, "*?[") {
			t.Errorf("%q is no clean relative name", name)
		}
	}
	for _, want := range []string{".vscode", ".idea", ".mcp.json", ".envrc", ".gitmodules", ".husky", ".claude/settings.local.json"} {
		if !slices.Contains(names.Top, want) {
			t.Errorf("%q is not guarded at the top of a workspace", want)
		}
	}
	names.Top[0] = "changed"
	if policy.GuardedWorkspaceNames().Top[0] == "changed" {
		t.Error("a caller changed the table")
	}
}

// A start-up file is what a variable names, if that can be a file at all.
func TestStartVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v     policy.StartVariable
		value string
		want  []string
	}{
		"a file":           {value: "/h/rc", want: []string{"/h/rc"}},
		"unclean":          {value: "/h//x/../rc", want: []string{"/h/rc"}},
		"in a directory":   {v: policy.StartVariable{Names: []string{"a", "b"}}, value: "/h", want: []string{"/h/a", "/h/b"}},
		"unset":            {},
		"relative":         {value: "rc"},
		"relative, counts": {v: policy.StartVariable{Relative: true}, value: "rc", want: []string{"/w/rc"}},
		"unset, relative":  {v: policy.StartVariable{Relative: true}},
		"the kernel's":     {value: "/dev/null"},
		"a NUL byte":       {value: "/h/\x00"},
	} {
		if got := c.v.Paths(c.value, "/w"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if in, ok := policy.ConfigHome(".config/git"); in != "git" || !ok {
		t.Errorf("got %q, %v", in, ok)
	}
	if in, ok := policy.ConfigHome(".configs/git"); ok {
		t.Errorf("got %q", in)
	}
}

func TestMovedCredentials(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"GNUPGHOME": "/e/gnupg/", "CARGO_HOME": "/e/cargo", "DOCKER_CONFIG": "/e/docker", "KUBECONFIG": "/e/k1:rel:/e/k2:", "KRB5CCNAME": "FILE:/e/krb",
		"KRB5_KTNAME": "MEMORY:x", "AWS_CONFIG_FILE": "rel", "npm_config_userconfig": "/e/npmrc", "HISTFILE": "/dev/null", "NETRC": "", "PGPASSFILE": "/",
	}
	denies := policy.DefaultDenies(policy.DefaultContext{GOOS: "linux", UID: 1, Home: "/h", Env: func(n string) string { return vars[n] }})
	got := map[string]string{}
	for _, d := range denies {
		if d.Variable != "" || strings.HasPrefix(d.Path, "/e/") {
			got[d.Path] = d.Variable + " " + string(d.Lift)
		}
	}
	want := map[string]string{
		"/e/gnupg": "GNUPGHOME read.allow", "/e/cargo/credentials.toml": "CARGO_HOME read.allow", "/e/cargo/credentials": "CARGO_HOME read.allow",
		"/e/docker/config.json": "DOCKER_CONFIG read.allow", "/e/k1": "KUBECONFIG read.allow", "/e/k2": "KUBECONFIG read.allow",
		"/e/krb": "KRB5CCNAME read.allow", "/e/npmrc": "npm_config_userconfig read.allow", "/": "PGPASSFILE read.allow",
	}
	for _, s := range []string{"S.gpg-agent", "S.gpg-agent.extra", "S.gpg-agent.browser", "S.gpg-agent.ssh", "S.scdaemon", "S.keyboxd"} {
		want["/e/gnupg/"+s] = " sockets"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
