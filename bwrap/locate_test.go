//go:build unix

package bwrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold/bwrap"
	"pinfold/policy"
)

// fakeTool writes a program that answers --version.
func fakeTool(t *testing.T, path, version string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n[ \"$*\" = --version ] && [ -z \"$LD_PRELOAD\" ] && echo '"+version+"'\n"), 0o755))
	must(t, os.Chmod(path, 0o755))
}

func TestLocate(t *testing.T) {
	t.Setenv("LD_PRELOAD", "") // a value would reach the shell that runs the fake
	for name, c := range map[string]struct {
		prepare   func(t *testing.T, dir string) (path string)
		forbidden string // beneath the lab
		code      string // of the refusal
		says      string // in the refusal
		found     string // beneath the lab
	}{
		"the first on the PATH": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				fakeTool(t, dir+"/c/bwrap", "bubblewrap 0.8.0")
				return dir + "/a:" + dir + "/b:" + dir + "/c"
			},
			found: "/b/bwrap",
		},
		"through links": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/real/bin/bwrap.1", "bubblewrap 0.9.0")
				must(t, os.Symlink("bwrap.1", dir+"/real/bin/bwrap"))
				must(t, os.Symlink("../lab/./real/bin", dir+"/bin"))
				return dir + "/bin"
			},
			found: "/real/bin/bwrap.1",
		},
		"none":          {prepare: func(_ *testing.T, dir string) string { return dir }, code: "bwrap_missing", says: "no bwrap on the PATH"},
		"an empty PATH": {prepare: func(*testing.T, string) string { return "" }, code: "bwrap_missing"},
		"relative": {
			prepare: func(t *testing.T, _ string) string { return "bin:." },
			code:    "bwrap_untrusted", says: "relative",
		},
		"writable from inside": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/w/bin/bwrap", "bubblewrap 0.9.0")
				return dir + "/w/bin"
			},
			forbidden: "/w", code: "bwrap_untrusted", says: "written from inside",
		},
		"a link writable from inside": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/real/bwrap", "bubblewrap 0.9.0")
				must(t, os.Mkdir(dir+"/w", 0o755))
				must(t, os.Symlink(dir+"/real/bwrap", dir+"/w/bwrap"))
				return dir + "/w"
			},
			forbidden: "/w", code: "bwrap_untrusted", says: "written from inside",
		},
		"passes an untrusted one over": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/w/bwrap", "bubblewrap 0.9.0")
				fakeTool(t, dir+"/good/bwrap", "bubblewrap 0.8.0")
				return dir + "/w:" + dir + "/good"
			},
			forbidden: "/w", found: "/good/bwrap",
		},
		"group-writable": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				must(t, os.Chmod(dir+"/b/bwrap", 0o775))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "written by others",
		},
		"in a directory for all": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				must(t, os.Chmod(dir+"/b", 0o777))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "written by others",
		},
		"setuid": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				must(t, os.Chmod(dir+"/b/bwrap", 0o755|os.ModeSetuid))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "setuid",
		},
		"not executable": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				must(t, os.Chmod(dir+"/b/bwrap", 0o644))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "not executable",
		},
		"a directory": {
			prepare: func(t *testing.T, dir string) string {
				must(t, os.MkdirAll(dir+"/b/bwrap", 0o755))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "not executable",
		},
		"a loop": {
			prepare: func(t *testing.T, dir string) string {
				must(t, os.Symlink("bwrap", dir+"/bwrap"))
				return dir
			},
			code: "bwrap_untrusted", says: "too many symbolic links",
		},
		"another program": {
			prepare: func(t *testing.T, dir string) string {
				fakeTool(t, dir+"/b/bwrap", "something else")
				return dir + "/b"
			},
			code: "bwrap_broken",
		},
		"another user's": {
			prepare: func(t *testing.T, dir string) string {
				if os.Geteuid() != 0 {
					t.Skip("only root can give a file away")
				}
				fakeTool(t, dir+"/b/bwrap", "bubblewrap 0.9.0")
				must(t, os.Chown(dir+"/b/bwrap", 65534, 65534))
				return dir + "/b"
			},
			code: "bwrap_untrusted", says: "belongs to user 65534",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			dir += "/lab"
			must(t, os.Mkdir(dir, 0o755))
			path := c.prepare(t, dir)
			forbidden := func(p string) bool {
				return c.forbidden != "" && (p == dir+c.forbidden || bwrap.IsBelow(p, dir+c.forbidden))
			}
			tool, err := bwrap.Locate(t.Context(), path, forbidden)
			if c.found != "" {
				if err != nil || tool.Path != dir+c.found {
					t.Errorf("got %+v, %v, wanted %s", tool, err, c.found)
				}
				return
			}
			if err == nil {
				t.Fatalf("got %+v, wanted a refusal", tool)
			}
			subject := "bwrap"
			if c.code == "bwrap_broken" {
				subject = dir + "/b/bwrap"
			}
			refused(t, err, policy.Unavailable, c.code, subject)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, wanted it to say %q", err, c.says)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string][3]int{
		"bubblewrap 0.8.0\n": {0, 8, 0}, "0.12.1": {0, 12, 1}, "bubblewrap 1.0.0-rc1": {1, 0, 0}, "0.11.0+deb": {0, 11, 0},
	} {
		if got, err := bwrap.ParseVersion(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v, wanted %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "bubblewrap", "bubblewrap 0", "0.8", "0.8.", "0.x.0", "-1.0.0", "a.b.c"} {
		if got, err := bwrap.ParseVersion(s); err == nil {
			t.Errorf("%q: got %v, wanted an error", s, got)
		}
	}
}

func TestCommandEnv(t *testing.T) {
	t.Parallel()
	env := []string{"B=1", "A=x=y", "HTTP_PROXY=http://u:p@corp:1", "all_proxy=socks5://corp", "NO_PROXY=*", "Z="}
	if got, want := bwrap.CommandEnv(env, "", "/p"), []string{"A=x=y", "B=1", "Z="}; !slices.Equal(got, want) {
		t.Errorf("got %q, wanted %q", got, want)
	}
	got := bwrap.CommandEnv(env, bwrap.ProxyAddress, "/usr/bin/pinfold")
	for _, want := range []string{
		"A=x=y", "B=1", "HTTPS_PROXY=http://127.0.0.1:3128", "http_proxy=http://127.0.0.1:3128", "NO_PROXY=localhost,127.0.0.1,::1",
		"ALL_PROXY=http://127.0.0.1:3128", "GIT_SSH_COMMAND=ssh -o 'ProxyCommand=/usr/bin/pinfold connect %h %p'",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("got %q, wanted %q in it", got, want)
		}
	}
	if strings.Contains(strings.Join(got, " "), "corp") || !slices.IsSorted(got) {
		t.Errorf("got %q, wanted it sorted and without the caller's proxies", got)
	}
	if env[2] != "HTTP_PROXY=http://u:p@corp:1" {
		t.Error("the Grant's own environment was changed")
	}
}
