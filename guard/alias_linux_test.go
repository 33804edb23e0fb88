package guard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/policy"
)

// inNamespace runs the test again in a mount namespace of its own, where it
// may mount; the caller returns when it says false.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceMarker) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root can mount where every owner is known: in a user namespace of one's own the guard refuses")
	}
	args := []string{"--mount", "--propagation", "private"}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", append(args, exe, "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), namespaceMarker+"="+testHome(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in a namespace: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("the test didn't run in its namespace:\n%s", out)
	}
	return false
}

func (tr *tree) bind(from, to string) {
	tr.t.Helper()
	if info, err := os.Stat(tr.path(from)); err == nil && info.IsDir() {
		tr.dirs(to)
	} else if err == nil {
		tr.files(to)
	}
	if err := unix.Mount(tr.path(from), tr.path(to), "", unix.MS_BIND, ""); err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() { _ = unix.Unmount(tr.path(to), unix.MNT_DETACH) })
}

func (tr *tree) mount(kind, to, data string) {
	tr.t.Helper()
	tr.dirs(to)
	if err := unix.Mount(kind, tr.path(to), kind, 0, data); err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() { _ = unix.Unmount(tr.path(to), unix.MNT_DETACH) })
}

// relativeOverlay mounts an overlay whose directories are named from the one
// that they lie in, as container engines do.
func (tr *tree) relativeOverlay(to string) {
	tr.t.Helper()
	tr.mount("tmpfs", "fs", "")
	tr.files("fs/l/s/key")
	tr.dirs("fs/u", "fs/w", to)
	cmd := exec.CommandContext(tr.t.Context(), "mount", "-i", "-t", "overlay", "overlay", "-o", "lowerdir=l,upperdir=u,workdir=w", tr.path(to))
	cmd.Dir = tr.path("fs")
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("%v: %s", err, out)
	}
	tr.t.Cleanup(func() { _ = unix.Unmount(tr.path(to), unix.MNT_DETACH) })
}

// TestWritableByAnotherMount: what the command may write by one name may be
// known to the caller by another one.
func TestWritableByAnotherMount(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		want    map[string]bool
	}{
		"a bind of the grant": {
			prepare: func(tr *tree) { tr.files("ws/sub/f"); tr.bind("ws", "alias") },
			want:    map[string]bool{"alias": true, "alias/sub/new": true, "ws": true, "other": false},
		},
		"a bind of what holds the grant": {
			prepare: func(tr *tree) { tr.files("p/w/f", "p/other/f"); tr.bind("p", "alias") },
			launch:  launch{write: []string{"p/w"}},
			want:    map[string]bool{"alias/w/f": true, "alias/other": false, "alias": false},
		},
		"a bind of a bind": {
			prepare: func(tr *tree) { tr.files("ws/sub/f"); tr.bind("ws/sub", "a"); tr.bind("a", "b") },
			want:    map[string]bool{"a": true, "b/f": true},
		},
		"a bind in the grant": {
			prepare: func(tr *tree) { tr.files("s/sub/f", "s/f"); tr.bind("s/sub", "ws/s") },
			want:    map[string]bool{"s/sub/f": true, "s/f": false, "s": false},
		},
		"one mounted over": {
			prepare: func(tr *tree) { tr.files("ws/sub/f"); tr.bind("ws", "alias"); tr.mount("tmpfs", "alias/sub", "") },
			want:    map[string]bool{"alias/f": true, "alias/sub/f": false},
		},
		"a denied part": {
			prepare: func(tr *tree) { tr.files("ws/sub/f"); tr.bind("ws", "alias") },
			launch:  launch{deny: []string{"ws/sub"}},
			want:    map[string]bool{"alias/f": true, "alias/sub": false, "alias/sub/f": false},
		},
		"an overlay": {
			prepare: func(tr *tree) {
				tr.mount("tmpfs", "fs", "")
				tr.dirs("fs/l", "fs/u", "fs/w")
				tr.mount("overlay", "ws", "lowerdir="+tr.path("fs/l")+",upperdir="+tr.path("fs/u")+",workdir="+tr.path("fs/w"))
			},
			want: map[string]bool{"fs/u/state": true, "fs/w": true, "fs": false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			c.prepare(tr)
			c.launch.write = append(c.launch.write, "{workspace}")
			g := c.launch.grant(tr)
			for path, want := range c.want {
				if got := g.Writable(tr.path(path)); got != want {
					t.Errorf("%s: got %v, wanted %v", path, got, want)
				}
			}
		})
	}
}

func TestMountedAliases(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		want    []string
		code    string
	}{
		"the protected directory": {
			prepare: func(tr *tree) { tr.files("state/token"); tr.bind("state", "alias") },
			launch:  launch{protect: []string{"state"}},
			want:    []string{"deny alias", "deny state"},
		},
		"a default deny": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id"); tr.bind("home/.ssh", "alias") },
			want:    []string{"empty alias", "empty home/.ssh"},
		},
		"a file": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.bind("s/key", "alias/key") },
			launch:  launch{deny: []string{"s/key"}},
			want:    []string{"deny alias/key", "deny s/key"},
		},
		"the parent": {
			prepare: func(tr *tree) { tr.files("p/s/key", "p/other"); tr.bind("p", "alias") },
			launch:  launch{deny: []string{"p/s"}},
			want:    []string{"deny alias/s", "deny p/s"},
		},
		"a child": {
			prepare: func(tr *tree) { tr.files("s/in/key"); tr.bind("s/in", "alias") },
			launch:  launch{deny: []string{"s"}},
			want:    []string{"deny alias", "deny s"},
		},
		"in a write grant": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.bind("s", "ws/alias") },
			launch:  launch{write: []string{"{workspace}"}, deny: []string{"s"}},
			want:    []string{"deny s", "read-write ws", "deny ws/alias"},
		},
		"of a read-only directory, in a write grant": {
			prepare: func(tr *tree) { tr.files("ws/ro/f"); tr.bind("ws/ro", "ws/alias") },
			launch:  launch{write: []string{"{workspace}"}, readOnly: []string{"ws/ro"}},
			want:    []string{"read-write ws", "read-only ws/alias", "read-only ws/ro"},
		},
		"a write grant of an alias": {
			prepare: func(tr *tree) { tr.files("state/f"); tr.bind("state", "alias") },
			launch:  launch{protect: []string{"state"}, write: []string{"alias"}},
			code:    "protected_write",
		},
		"an allow of an alias": {
			prepare: func(tr *tree) { tr.files("home/.ssh/id"); tr.bind("home/.ssh", "alias") },
			launch:  launch{allow: []string{"alias"}},
			code:    "default_deny",
		},
		"the workspace through an alias of the protected directory": {
			prepare: func(tr *tree) { tr.files("state/ws/f", "state/token"); tr.bind("state/ws", "alias") },
			launch: launch{
				protect: []string{"state"}, write: []string{"{workspace}"},
				edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Workspace = tr.path("alias") },
			},
			want: []string{"read-write alias", "deny state"},
		},
		"an overlay": {
			prepare: func(tr *tree) {
				tr.mount("tmpfs", "fs", "")
				tr.files("fs/l/s/key")
				tr.dirs("fs/u", "fs/w")
				tr.mount("overlay", "merged", "lowerdir="+tr.path("fs/l")+",upperdir="+tr.path("fs/u")+",workdir="+tr.path("fs/w"))
			},
			launch: launch{deny: []string{"merged/s"}},
			want:   []string{"deny fs/l/s", "deny merged/s"},
		},
		"an overlay with relative layers": {
			prepare: func(tr *tree) { tr.relativeOverlay("fs/merged") },
			launch:  launch{deny: []string{"fs/l/s"}},
			want:    []string{"deny fs/l/s", "deny fs/merged/s"},
		},
		"an overlay whose layers are links": {
			prepare: func(tr *tree) {
				tr.mount("tmpfs", "fs", "")
				tr.files("fs/id/diff/s/key")
				tr.dirs("fs/u", "fs/w")
				tr.link("id/diff", "fs/A")
				tr.mount("overlay", "merged", "lowerdir="+tr.path("fs/A")+",upperdir="+tr.path("fs/u")+",workdir="+tr.path("fs/w"))
			},
			launch: launch{deny: []string{"fs/id"}},
			want:   []string{"deny fs/id", "deny fs/u", "deny fs/w", "deny merged"},
		},
		"an overlay with layers that can't be found": {
			prepare: func(tr *tree) { tr.relativeOverlay("merged") },
			launch:  launch{deny: []string{"other"}},
			want:    []string{"deny merged"},
		},
		"a grant in an overlay with layers that can't be found": {
			prepare: func(tr *tree) { tr.relativeOverlay("merged") },
			launch:  launch{write: []string{"merged/s"}},
			code:    "overlay_unknown",
		},
		"a further procfs": {
			prepare: func(tr *tree) { tr.bind("/proc", "jail/proc") },
			want:    []string{"deny jail/proc"},
		},
		"an allow in a further procfs": {
			prepare: func(tr *tree) { tr.bind("/proc", "jail/proc") },
			launch:  launch{allow: []string{"jail/proc/version"}},
			code:    "kernel_directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			c.prepare(tr)
			if c.code != "" {
				c.launch.refused(tr, c.code)
				return
			}
			if diff := cmp.Diff(c.want, show(tr, c.launch.grant(tr))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExplainAliases: by which other names the same object shows.
func TestExplainAliases(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	tr := newTree(t)
	tr.files("s/key")
	tr.bind("s", "alias")
	g := launch{deny: []string{"s"}}.grant(tr)
	for at, alias := range map[string]string{"s/key": "alias/key", "alias/key": "s/key"} {
		e, err := g.Explain(tr.path(at))
		// More are the machine's own, such as the layers of an overlay.
		if err != nil || e.Readable || !slices.Contains(e.Aliases, tr.path(alias)) || slices.Contains(e.Aliases, tr.path(at)) {
			t.Errorf("%s: %+v, %v", at, e, err)
		}
	}
	within := func(p string) bool { return strings.HasPrefix(p, filepath.Dir(tr.path("s"))) }
	if e, err := g.Explain(tr.path("s/../home")); err != nil || slices.ContainsFunc(e.Aliases, within) {
		t.Errorf("what shows once: %+v, %v", e, err)
	}
}
