package guard_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

func TestBaseSystem(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("home/f", "home/ok/f", "other")
	g := launch{base: policy.BaseSystem, write: []string{"{workspace}"}, allow: []string{"~/ok"}}.grant(tr)
	if diff := cmp.Diff([]string{"empty passable home", "read-only home/ok", "read-write ws"}, show(tr, g)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	for _, dir := range []string{"/usr", "/etc"} {
		if !slices.ContainsFunc(g.Entries(), func(e guard.Entry) bool { return e.Path == dir && e.Access == guard.ReadOnly }) {
			t.Errorf("%s doesn't show", dir)
		}
	}
	if info, err := os.Lstat("/bin"); err == nil && info.Mode()&os.ModeSymlink != 0 {
		want := guard.Link{Path: "/bin", Target: "usr/bin"}
		if !slices.Contains(g.Links(), want) {
			t.Errorf("links = %v, want %v among them", g.Links(), want)
		}
	}
	if e, err := g.Explain(tr.path("other")); err != nil || e.Looks != "hidden" {
		t.Errorf("Explain = %+v, %v; want hidden", e, err)
	}
}

// A home that is granted isn't an empty one.
func TestBaseSystemWithAGrantedHome(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("home/f")
	g := launch{base: policy.BaseSystem, allow: []string{"~", "ws"}}.grant(tr)
	if diff := cmp.Diff([]string{"read-only home", "read-only ws"}, show(tr, g)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLinksToWhatIsGranted(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.dirs("real/ws")
	tr.link("real", "l")
	g := launch{base: policy.BaseNone, write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
		r.Workspace = tr.path("l/ws")
	}}.grant(tr)
	if diff := cmp.Diff([]guard.Link{{Path: tr.path("l"), Target: "real"}}, g.Links()); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// listen makes a unix socket in the tree.
func (tr *tree) listen(p string) {
	tr.t.Helper()
	tr.dirs(filepath.Dir(tr.path(p)))
	l, err := net.Listen("unix", tr.path(p))
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(func() { l.Close() })
}

func TestSockets(t *testing.T) {
	t.Parallel()
	runtime := func(tr *tree, _ *policy.Policy, r *guard.Request) {
		r.Runtime, r.SSHAuthSock, r.Toolbelt = tr.path("xdg"), tr.path("agent/s"), tr.path("state/tb/s")
	}
	for name, c := range map[string]struct {
		launch  launch
		want    []string
		sockets []string
	}{
		"places of sockets look empty": {want: []string{"empty agent/s", "empty xdg"}},
		"one in the runtime directory is an exception for itself": {
			launch:  launch{sockets: []string{"xdg/bus"}},
			want:    []string{"empty agent/s", "empty passable xdg", "read-only xdg/bus"},
			sockets: []string{"xdg/bus"},
		},
		"the agent is lifted by name": {
			launch: launch{sockets: []string{"agent/s"}}, want: []string{"empty xdg"}, sockets: []string{"agent/s"},
		},
		"the toolbelt in the protected set": {
			launch: launch{sockets: []string{"{toolbelt}"}, protect: []string{"state"}},
			want:   []string{"empty agent/s", "deny passable state", "read-only state/tb/s", "empty xdg"}, sockets: []string{"state/tb/s"},
		},
		"one that isn't there": {launch: launch{sockets: []string{"none"}}, want: []string{"empty agent/s", "empty xdg"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.listen("xdg/bus")
			tr.listen("agent/s")
			tr.listen("state/tb/s")
			c.launch.edit = runtime
			g := c.launch.grant(tr)
			if diff := cmp.Diff(c.want, show(tr, g)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			var sockets []string
			for _, s := range g.Sockets() {
				sockets = append(sockets, strings.TrimPrefix(s.Path, tr.root+"/"))
			}
			if diff := cmp.Diff(c.sockets, sockets); diff != "" {
				t.Errorf("sockets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSocketsThatAreRefused(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.listen("state/other/s")
	tr.listen("xdg/bus")
	tr.link("/root/xdg/bus", "l")
	launch{sockets: []string{"state/other/s"}, protect: []string{"state"}}.refused(tr, "protected_socket")
	launch{sockets: []string{"l"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Runtime = tr.path("xdg") }}.refused(tr, "default_deny")
}

// What is made in the private directories isn't the host's; grants beneath
// them are shown on top.
func TestPrivateDirectories(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/var/tmp", "guard-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tr := newTree(t)
	for _, d := range []string{"w", "r", "hidden", "w/s"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := launch{
		write: []string{dir + "/w"}, allow: []string{dir + "/r"}, deny: []string{dir + "/hidden", dir + "/w/s"},
	}.grant(tr)
	var got []string
	for _, e := range g.Entries() {
		if rest, ok := strings.CutPrefix(e.Path, dir+"/"); ok {
			got = append(got, e.Access.String()+" "+rest)
		}
	}
	if diff := cmp.Diff([]string{"read-only r", "read-write w", "deny w/s"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
