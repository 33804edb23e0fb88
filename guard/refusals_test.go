package guard_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	request := func(f func(*tree, *guard.Request)) func(*tree, *policy.Policy, *guard.Request) {
		return func(tr *tree, _ *policy.Policy, r *guard.Request) { f(tr, r) }
	}
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		code    string
		names   []string // what the refusal must name
	}{
		"no command":     {launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.Argv = nil })}, code: "no_command"},
		"a NUL byte":     {launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.Argv = []string{"a", "b\x00c"} })}, code: "nul_byte"},
		"a NUL in --env": {launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.EnvAdd = []string{"A=\x00"} })}, code: "nul_byte"},
		"no workspace there": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Workspace = tr.path("nowhere") })},
			code:   "workspace_missing", names: []string{"nowhere"},
		},
		"a workspace that is a file": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Workspace = tr.path("f") })},
			code:    "workspace_not_a_directory",
		},
		"a workspace beneath a file": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Workspace = tr.path("f/g") })},
			code:    "workspace_missing",
		},
		"a relative workspace": {
			launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.Workspace = "ws" })}, code: "path_not_absolute",
		},
		"no toolbelt there": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Toolbelt = tr.path("nowhere") })},
			code:   "toolbelt_missing", names: []string{"--toolbelt", "nowhere"},
		},
		"a toolbelt that is a file": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Toolbelt = tr.path("f") })},
			code:    "toolbelt_not_a_socket",
		},
		"settings that the command could make": {
			prepare: func(tr *tree) { tr.link("../ws/no/later.json", "set/policy.json") },
			launch: launch{write: []string{"{workspace}"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Settings, r.SettingsFiles = []string{tr.path("set")}, []string{tr.path("set/policy.json")}
			})},
			code: "settings_missing", names: []string{"set/policy.json", "ws/no/later.json"},
		},
		"a file of the next launch's that the command could make": {
			launch: launch{write: []string{"{workspace}"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Kept = []guard.Kept{{Path: tr.path("ws/proxy"), Name: "network.upstream", Kind: guard.File}}
			})},
			code: "settings_missing", names: []string{"ws/proxy"},
		},
		"a program of the next launch's by way of a link that the command could turn": {
			prepare: func(tr *tree) { tr.files("bin/pinfold"); tr.link("../bin/pinfold", "ws/p") },
			launch: launch{write: []string{"{workspace}"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Kept = []guard.Kept{{Path: tr.path("ws/p"), Name: "pinfold", Kind: guard.File}}
			})},
			code: "reaimable_symlink", names: []string{"ws/p"},
		},
		"a context that is the workspace": {
			prepare: func(tr *tree) { tr.files("ws/Dockerfile") },
			launch: launch{write: []string{"{workspace}"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Kept = []guard.Kept{{Path: tr.path("ws"), Name: "container.build", Kind: guard.Dir, LeftOut: func(string) (bool, error) { return true, nil }}}
			})},
			code: "context_writable", names: []string{"ws"},
		},
		"a context that holds a grant": {
			prepare: func(tr *tree) { tr.files("ws/Dockerfile", "ws/src/f") },
			launch: launch{write: []string{"{workspace}/src"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Kept = []guard.Kept{{Path: tr.path("ws"), Name: "container.build", Kind: guard.Dir}}
			})},
			code: "context_writable", names: []string{"ws/src"},
		},
		"settings by way of a link that the command could turn": {
			prepare: func(tr *tree) {
				tr.files("o/policy.json")
				tr.link("../o/policy.json", "ws/policy.json")
				tr.link("../ws/policy.json", "set/policy.json")
			},
			launch: launch{write: []string{"{workspace}"}, edit: request(func(tr *tree, r *guard.Request) {
				r.SettingsFiles = []string{tr.path("set/policy.json")}
			})},
			code: "reaimable_symlink", names: []string{"ws/policy.json"},
		},
		"nothing to share": {
			launch: launch{protect: []string{"p"}, edit: request(func(tr *tree, r *guard.Request) { r.Share = []string{tr.path("p/nowhere")} })},
			code:   "share_missing", names: []string{"--share", "nowhere"},
		},
		"a home named that isn't there": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Home, r.HomeNamed = tr.path("nowhere"), true })},
			code:   "home_missing", names: []string{"--home", "nowhere"},
		},
		"a home named that is a file": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Home, r.HomeNamed = tr.path("f"), true })},
			code:    "home_not_a_directory",
		},
		"the private directory as workspace": {
			launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.Workspace = "/tmp" })}, code: "private_directory",
		},
		"everything":         {launch: launch{write: []string{"/"}}, code: "write_root"},
		"denying everything": {launch: launch{deny: []string{"/"}}, code: "rule_for_root", names: []string{"none"}},
		"allowing everything": {
			launch: launch{base: policy.BaseNone, allow: []string{"/"}}, code: "rule_for_root", names: []string{"host"},
		},
		"a missing write grant": {
			launch: launch{write: []string{"nowhere"}}, code: "write_missing", names: []string{"nowhere", "write[0]"},
		},
		"writing where a socket would be": {
			launch: launch{write: []string{"nowhere/docker.sock"}}, code: "write_missing", names: []string{"\"sockets\": [", "docker.sock"},
		},
		"a looping write grant": {
			prepare: func(tr *tree) { tr.link("b", "a"); tr.link("a", "b") },
			launch:  launch{write: []string{"a"}}, code: "symlink_loop",
		},
		"a grant of /proc":    {launch: launch{allow: []string{"/proc/version"}}, code: "kernel_directory"},
		"a grant of a device": {launch: launch{write: []string{"/dev/null"}}, code: "kernel_directory"},
		"a deny in /proc":     {launch: launch{deny: []string{"/proc/version"}}, code: "kernel_directory"},
		"a deny of /dev/null": {launch: launch{deny: []string{"/dev/null"}}, code: "kernel_directory"},
		"a link of a process": {launch: launch{allow: []string{"/proc/self/root/etc"}}, code: "path_unusable"},
		"no toolbelt":         {launch: launch{sockets: []string{"{toolbelt}"}}, code: "placeholder_missing", names: []string{"{toolbelt}"}},
		"no run directory":    {launch: launch{write: []string{"{run}"}}, code: "placeholder_missing"},
		"a socket that isn't one": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{sockets: []string{"f"}}, code: "not_a_socket",
		},
		"writing to a default deny": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{write: []string{"~/.ssh"}}, code: "default_deny", names: []string{"~/.ssh", "write[0]", "read.allow"},
		},
		"writing in a default deny": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{write: []string{"~/.ssh/id"}}, code: "default_deny",
		},
		"an exception beside the write in a default deny": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id", "home/.ssh/known_hosts") },
			launch:  launch{write: []string{"~/.ssh/id"}, allow: []string{"~/.ssh/known_hosts"}}, code: "default_deny",
		},
		"an allow that leads into a default deny": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id"); tr.link("/root/home/.ssh", "docs") },
			launch:  launch{allow: []string{"docs"}}, code: "default_deny",
		},
		"a default lifted by a link elsewhere": {
			prepare: func(tr *tree) { tr.files("home/.netrc"); tr.link("/root/home/.netrc", "n") },
			launch:  launch{allow: []string{"n"}}, code: "default_deny",
		},
		"read.allow of a place of sockets": {
			prepare: func(tr *tree) { tr.dirs("xdg") },
			launch:  launch{allow: []string{"xdg"}, edit: request(func(tr *tree, r *guard.Request) { r.Runtime = tr.path("xdg") })},
			code:    "default_deny", names: []string{"sockets"},
		},
		"a write grant that is protected": {
			launch: launch{write: []string{"state"}, protect: []string{"state"}}, code: "protected_write", names: []string{"--protect", "write[0]"},
		},
		"a write grant in a protected path": {
			prepare: func(tr *tree) { tr.dirs("state/x") },
			launch:  launch{write: []string{"state/x"}, protect: []string{"state"}}, code: "protected_write",
		},
		"a write grant into a protected path by a link": {
			prepare: func(tr *tree) { tr.dirs("state/x"); tr.link("/root/state/x", "l") },
			launch:  launch{write: []string{"l"}, protect: []string{"state"}}, code: "protected_write",
		},
		"a write grant that holds a protected path with a workspace beneath": {
			prepare: func(tr *tree) { tr.dirs("all/state/ws") },
			launch: launch{write: []string{"all"}, protect: []string{"all/state"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Workspace = tr.path("all/state/ws")
			})},
			code: "protected_write",
		},
		"a read exception in a protected path": {
			prepare: func(tr *tree) { tr.files("state/f") },
			launch:  launch{allow: []string{"state/f"}, protect: []string{"state"}}, code: "protected_read",
		},
		"a protected path in the workspace's exception": {
			prepare: func(tr *tree) { tr.files("state/ws/in/f") },
			launch: launch{allow: []string{"state/ws/in/f"}, protect: []string{"state", "state/ws/in"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Workspace = tr.path("state/ws")
			})},
			code: "protected_read",
		},
		"a run directory outside": {
			prepare: func(tr *tree) { tr.dirs("runs", "elsewhere") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.RunDir, r.RunsDir = tr.path("elsewhere"), tr.path("runs") })},
			code:    "run_dir_outside",
		},
		"a run directory that is the runs directory": {
			prepare: func(tr *tree) { tr.dirs("runs") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.RunDir, r.RunsDir = tr.path("runs"), tr.path("runs") })},
			code:    "run_dir_outside",
		},
		"a run directory through ..": {
			prepare: func(tr *tree) { tr.dirs("runs", "elsewhere") },
			launch: launch{edit: request(func(tr *tree, r *guard.Request) {
				r.RunDir, r.RunsDir = tr.path("runs")+"/../elsewhere", tr.path("runs")
			})},
			code: "run_dir_outside",
		},
		"a run directory through a link": {
			prepare: func(tr *tree) { tr.dirs("runs/1"); tr.link("1", "runs/l") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.RunDir = tr.path("runs/l") })},
			code:    "run_dir_symlink",
		},
		"a run directory that holds a protected path": {
			prepare: func(tr *tree) { tr.dirs("run/record") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.RunDir, r.Record = tr.path("run"), tr.path("run/record") })},
			code:    "run_dir_holds_protected",
		},
		"two spellings that disagree": {
			prepare: func(tr *tree) { tr.dirs("a"); tr.link("a", "b") },
			launch:  launch{write: []string{"a"}, deny: []string{"b"}}, code: "contradiction", names: []string{"write[0]", "read.deny[0]"},
		},
		"two spellings, write and read_only": {
			launch: launch{write: []string{"{workspace}"}, readOnly: []string{"ws"}}, code: "contradiction",
		},
		"an allow at a deny": {
			prepare: func(tr *tree) { tr.files("s/key") },
			launch:  launch{deny: []string{"s"}, allow: []string{"s"}}, code: "allow_reveals_nothing", names: []string{"read.allow[0]", "read.deny[0]"},
		},
		"an allow that holds a default beneath a deny": {
			prepare: func(tr *tree) { tr.files("home/.config/gh/hosts.yml") },
			launch:  launch{deny: []string{"~"}, allow: []string{"~/.config"}}, code: "allow_holds_default", names: []string{"~/.config/gh"},
		},
		"a denied name that is a link in a write grant": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.link("/root/s", "ws/s") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/s"}}, code: "reaimable_symlink", names: []string{"ws/s", "read.deny[0]", "write[0]"},
		},
		"a denied name beneath a link in a write grant": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.link("/root/s", "ws/a/s") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/a/s/key"}}, code: "reaimable_symlink",
		},
		"a denied name that is a dangling link in a write grant": {
			prepare: func(tr *tree) { tr.link("nowhere", "ws/s") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/s"}}, code: "reaimable_symlink",
		},
		"a denied name that is a looping link in a write grant": {
			prepare: func(tr *tree) { tr.link("s", "ws/s") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/s"}}, code: "reaimable_symlink",
		},
		"a guarded name that is a link": {
			prepare: func(tr *tree) { tr.dirs("x"); tr.link("/root/x", "ws/.vscode") },
			launch:  launch{write: []string{"{workspace}"}}, code: "reaimable_symlink", names: []string{"guard_workspace"},
		},
		"a default deny that is a link in a write grant": {
			prepare: func(tr *tree) { tr.files("dot/ssh/id"); tr.link("/root/dot/ssh", "home/.ssh") },
			launch:  launch{write: []string{"~"}}, code: "reaimable_symlink",
		},
		"a write grant through a link in a write grant": {
			prepare: func(tr *tree) { tr.dirs("x"); tr.link("/root/x", "ws/l") },
			launch:  launch{write: []string{"{workspace}", "ws/l"}}, code: "reaimable_symlink",
		},
		"an exception through a link in a write grant": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.link("/root/s/key", "ws/l") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"s"}, allow: []string{"ws/l"}}, code: "reaimable_symlink",
		},
		"a denied name beneath a file in a write grant": {
			prepare: func(tr *tree) { tr.files("ws/f") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"ws/f/key"}}, code: "not_a_directory",
		},
		"a write grant that names a guarded file": {
			prepare: func(tr *tree) { tr.files("ws/.envrc") },
			launch:  launch{write: []string{"{workspace}", "ws/.envrc"}}, code: "guarded_write", names: []string{"except"},
		},
		"starting in a denied directory": {
			prepare: func(tr *tree) { tr.dirs("s") },
			launch:  launch{deny: []string{"s"}, edit: request(func(tr *tree, r *guard.Request) { r.Dir = tr.path("s") })},
			code:    "dir_denied", names: []string{"read.deny[0]"},
		},
		"a denied workspace": {launch: launch{deny: []string{"ws"}}, code: "dir_denied"},
		"starting where nothing shows": {
			prepare: func(tr *tree) { tr.dirs("a") },
			launch:  launch{base: policy.BaseNone, edit: request(func(tr *tree, r *guard.Request) { r.Dir = tr.path("a") })},
			code:    "dir_hidden",
		},
		"starting in a file": {
			prepare: func(tr *tree) { tr.files("f") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Dir = tr.path("f") })}, code: "dir_missing",
		},
		"a name that is too long": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Dir = tr.path(strings.Repeat("n", 256)) })},
			code:   "path_unusable", names: []string{"255"},
		},
		"a run directory of its own, outside": {
			prepare: func(tr *tree) { tr.dirs("runs", "made") },
			launch: launch{edit: request(func(tr *tree, r *guard.Request) {
				r.RunDir, r.RunMade, r.RunsDir = tr.path("made"), true, tr.path("runs")
			})},
			code: "run_dir_outside", names: []string{"--run-dir"},
		},
		"a path that goes up from nothing": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Dir = tr.root + "/nowhere/../ws" })}, code: "path_unusable",
		},
		"a need to write": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Needs.Write = []string{tr.path("ws")} })},
			code:   "need_outside_grant", names: []string{"needs.write[0]"},
		},
		"a need to read a default": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{edit: request(func(tr *tree, r *guard.Request) { r.Needs.Read = []string{tr.path("home/.ssh/id")} })},
			code:    "need_outside_grant", names: []string{"~/.ssh"},
		},
		"a need to read what is protected": {
			prepare: func(tr *tree) { tr.files("state/f") },
			launch: launch{protect: []string{"state"}, edit: request(func(tr *tree, r *guard.Request) {
				r.Needs.Read = []string{tr.path("state/f")}
			})},
			code: "need_outside_grant",
		},
		"a host need": {
			launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.Needs.Hosts = []string{"example.com"} })},
			code:   "need_host_outside_grant", names: []string{"example.com", "network.allow"},
		},
		"a socket need": {
			launch: launch{edit: request(func(tr *tree, r *guard.Request) { r.Needs.Sockets = []string{tr.path("s.sock")} })},
			code:   "need_socket_outside_grant",
		},
		"--env of a dropped variable": {
			launch: launch{edit: func(_ *tree, p *policy.Policy, r *guard.Request) {
				p.Env.Drop, r.EnvAdd = []string{"A*"}, []string{"AB=1"}
			}},
			code: "env_dropped",
		},
		"--env of an unset variable": {
			launch: launch{edit: request(func(_ *tree, r *guard.Request) { r.EnvAdd = []string{"NOSUCH"} })}, code: "env_unset",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			if c.prepare != nil {
				c.prepare(tr)
			}
			r := c.launch.refused(tr, c.code)
			// A person is shown no more than the reason and the hint.
			shown := r.Why + " " + r.Fix
			if c.code != "contradiction" && c.code != "allow_reveals_nothing" && c.code != "dir_denied" {
				shown += " " + r.Rule
			}
			for _, n := range c.names {
				if !strings.Contains(shown, n) {
					t.Errorf("the refusal doesn't name %q: why %q, rule %q, fix %q", n, r.Why, r.Rule, r.Fix)
				}
			}
			if !errors.Is(r, policy.ErrDenied) {
				t.Errorf("reason = %s, want %s", r.Reason, policy.Denied)
			}
		})
	}
}

// What looks like a contradiction and is none.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
	}{
		"a redundant allow in another spelling": {
			prepare: func(tr *tree) { tr.dirs("a"); tr.link("a", "b") },
			launch:  launch{write: []string{"a"}, allow: []string{"b"}},
		},
		"deny and read_only in two spellings": {
			prepare: func(tr *tree) { tr.dirs("a"); tr.link("a", "b") },
			launch:  launch{deny: []string{"a"}, readOnly: []string{"b"}},
		},
		"a broad allow": {launch: launch{allow: []string{"/usr", "~"}}},
		"a workspace reached through a link": {
			prepare: func(tr *tree) { tr.dirs("real/ws"); tr.link("real", "link") },
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Workspace = tr.path("link/ws")
			}},
		},
		"a redundant allow through a link in a write grant": {
			prepare: func(tr *tree) { tr.link("/usr/share", "ws/docs") },
			launch:  launch{write: []string{"{workspace}"}, allow: []string{"ws/docs"}},
		},
		"a link in a write grant whose directory is covered": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.link("/root/s", "ws/ro/s") },
			launch:  launch{write: []string{"{workspace}"}, readOnly: []string{"ws/ro"}, deny: []string{"ws/ro/s"}},
		},
		"denying what isn't in the minimal /dev": {launch: launch{deny: []string{"/dev/kvm"}}},
		"granting the private directory":         {launch: launch{write: []string{"/tmp"}, allow: []string{"/var/tmp"}}},
		"a write in a default deny that is lifted for it": {
			prepare: func(tr *tree) { tr.files("home/.ssh/known_hosts") },
			launch:  launch{write: []string{"~/.ssh/known_hosts"}, allow: []string{"~/.ssh/known_hosts"}},
		},
		"a write to a default deny that is lifted": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id") },
			launch:  launch{write: []string{"~/.ssh"}, allow: []string{"~/.ssh"}},
		},
		"an allow that holds a default which is named itself": {
			prepare: func(tr *tree) { tr.files("home/.config/gh/hosts.yml") },
			launch:  launch{deny: []string{"~", "~/.config/gh"}, allow: []string{"~/.config"}},
		},
		"a deny 40 links deep": {
			prepare: func(tr *tree) {
				tr.files("s/key")
				for i, to := 0, "s"; i < 40; i++ {
					name := "l" + strings.Repeat("x", i)
					tr.link(to, name)
					to = name
				}
			},
			launch: launch{deny: []string{"l" + strings.Repeat("x", 39)}},
		},
		"granting the parent of a state directory with a fresh run directory": {
			prepare: func(tr *tree) { tr.dirs("home/state/run/1") },
			launch: launch{write: []string{"~"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.State, r.RunDir, r.RunMade = tr.path("home/state"), tr.path("home/state/run/1"), true
			}},
		},
		"needs within the grant": {
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, r *guard.Request) {
				h, err := policy.ParseHostPattern("*.example.com")
				if err != nil {
					tr.t.Fatal(err)
				}
				p.Network.Allow = []policy.HostPattern{h}
				r.Needs = guard.Needs{
					Read: []string{"/usr"}, Write: []string{tr.path("ws"), tr.path("ws/new"), "/tmp"}, Hosts: []string{"a.example.com:443"},
				}
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			if c.prepare != nil {
				c.prepare(tr)
			}
			c.launch.grant(tr)
		})
	}
}

func TestRenamableAncestors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode os.FileMode
		code string
	}{
		"others may write":          {0o777, "renamable_parent"},
		"others may write, sticky":  {0o777 | os.ModeSticky, ""},
		"nobody else may write":     {0o755, ""},
		"a private group may write": {0o775, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.dirs("shared/ws")
			if err := os.Chmod(tr.path("shared"), c.mode); err != nil {
				t.Fatal(err)
			}
			l := launch{write: []string{"shared/ws"}}
			if c.code == "" {
				l.grant(tr)
				return
			}
			l.refused(tr, c.code)
		})
	}
}

// As root another user's directories can be made for real.
func TestForeignOwners(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const other = 12345
	tr := newTree(t)
	tr.dirs("theirs/ws", "mine/ws")
	if err := os.Chown(tr.path("theirs"), other, other); err != nil {
		t.Fatal(err)
	}
	r := launch{write: []string{"theirs/ws"}}.refused(tr, "renamable_parent")
	if !strings.Contains(r.Fix, "--user") {
		t.Errorf("the fix doesn't name --user: %q", r.Fix)
	}
	tr.link("/root/mine/ws", "link")
	if err := os.Lchown(tr.path("link"), other, other); err != nil {
		t.Fatal(err)
	}
	launch{write: []string{"link"}}.refused(tr, "foreign_symlink")
	launch{edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Workspace = tr.path("link") }}.refused(tr, "foreign_symlink")
}
