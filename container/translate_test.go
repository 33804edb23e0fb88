package container_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold/container"
	"pinfold/guard"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var id = "sha256:" + strings.Repeat("ab", 32)

func image() container.Image {
	return container.Image{Name: id, ID: id, Arch: "amd64", OS: "linux", Env: []string{"PATH=/opt/bin:/bin", "LANG=C", "SECRET=image"}, Volumes: []string{"/data", "/tmp", "/tmp/x", "/w"}}
}

func docker() container.Info {
	return container.Info{Provider: "docker", Endpoint: "unix:///run/docker.sock", Version: "28.0.0", Arch: "amd64", Cgroup: 2, CanLimit: container.CanLimit{CPU: true, Memory: true, Swap: true, PIDs: true}}
}

func options() container.Options {
	return container.Options{
		Image: id, Stub: "/state/init", StubSHA256: "5ab", Handover: "/state/h", Scratch: "/state/c", Relays: "/state/r",
		UID: 1000, GID: 1000, Labels: map[string]string{container.LabelHost: "h", container.LabelDigest: "d"}, Args: []string{"container"},
	}
}

// host has everything beneath the grants but what is called missing.
func host(listening ...string) container.Host {
	return container.Host{
		Exists: func(p string) bool {
			return (strings.HasPrefix(p, "/w") || strings.HasPrefix(p, "/home/u/docs")) && !strings.Contains(p, "missing")
		},
		Listening: func(context.Context, *container.Reach, bool) ([]string, error) { return listening, nil },
		Seccomp:   func(string) ([]byte, error) { return []byte(`{"defaultAction":"SCMP_ACT_ERRNO"}`), nil },
	}
}

func dir(path string, a guard.Access) guard.Entry {
	return guard.Entry{Path: path, Access: a, Kind: guard.Dir, ID: guard.FileID{Dev: 1, Ino: uint64(len(path))}, Rule: guard.Rule{Class: guard.ClassPolicy, Text: path, Source: "p.json"}}
}

func file(path string, a guard.Access) guard.Entry {
	e := dir(path, a)
	e.Kind = guard.File
	return e
}

func missing(path string, a guard.Access) guard.Entry {
	e := dir(path, a)
	e.Kind, e.ID = guard.Missing, guard.FileID{}
	return e
}

func full() container.Input {
	hidden := dir("/w/secret", guard.Deny)
	hidden.Passable = true
	home := dir("/home/u", guard.Empty)
	home.Passable = true
	return container.Input{
		Entries: []guard.Entry{
			home, dir("/home/u/docs", guard.ReadOnly), dir("/w", guard.ReadWrite), dir("/w/.git/hooks", guard.ReadOnly), file("/w/.git/config", guard.ReadOnly),
			file("/w/.npmrc", guard.Empty), hidden, dir("/w/secret/public", guard.ReadOnly), missing("/home/u/none", guard.Deny),
		},
		Pins:      []guard.Pin{{Root: "/w", Path: "/w/.git", ID: guard.FileID{Dev: 1, Ino: 9}}},
		Submounts: []guard.Submount{{Path: "/home/u/docs/usb", Shape: guard.Dir}},
		Maps:      []guard.Mapping{{Source: "/w", Target: "/kb", Access: guard.ReadOnly, Kind: guard.Dir, Rule: guard.Rule{Source: "container.mounts[0]"}}},
		Spellings: []guard.Spelling{{Given: "/link", Canonical: "/w"}},
		Sockets:   []guard.Socket{{Path: "/run/tb/s"}, {Path: "/w/own/s"}},
		Network:   policy.Network{Allow: []policy.HostPattern{{Text: "example.com"}}, HostPorts: []uint16{8080}},
		Limits:    policy.Limits{CPUs: 1.5, Memory: 1 << 30, Tmp: 1 << 20},
		Argv:      []string{"/link/run", "--out=/link/o", "cd /link"}, Env: []string{"HOME=/home/u", "X=/link:/other", "SECRET=mine"}, Dir: "/w",
	}
}

// TestGolden: the whole container, as an engine is asked for it.
func TestGolden(t *testing.T) {
	t.Parallel()
	l, err := container.TranslateInput(full(), docker(), image(), options(), host())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, a := range container.Arguments(l.Spec) {
		b.WriteString(a + "\n")
	}
	for _, c := range l.Covers {
		b.WriteString("cover " + c.Name + " " + c.Mode.String() + " " + c.Inside + "\n")
	}
	for _, r := range l.Relays {
		b.WriteString("relay " + r.Socket + " " + r.Listen + "\n")
	}
	b.WriteString("argv " + strings.Join(l.Argv, " | ") + "\nenv " + strings.Join(l.Env, "\nenv ") + "\nlisten " + strings.Join(l.Listen, " ") + "\n")
	const golden = "testdata/full.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	digest, err := l.Plan.Digest()
	if err != nil {
		t.Error(err)
	}
	other := full()
	other.Network.HostPorts = []uint16{8081}
	if l, err = container.TranslateInput(other, docker(), image(), options(), host()); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Plan.Digest(); err != nil || d == digest {
		t.Errorf("another host port has the digest %s too, or %v", d, err)
	}
}

// TestPlanHoldsNoSecret: the environment is nowhere but in Env.
func TestPlanHoldsNoSecret(t *testing.T) {
	t.Parallel()
	in := full()
	in.Env = append(in.Env, "TOKEN=hunter2")
	in.Argv = append(in.Argv, "arg")
	l, err := container.TranslateInput(in, docker(), image(), options(), host())
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.Plan.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || strings.Contains(strings.Join(l.Spec.Env, " ")+strings.Join(l.Spec.Args, " "), "hunter2") {
		t.Error("the plan or the container has a value of the environment")
	}
	if !slices.Contains(l.Env, "TOKEN=hunter2") || !slices.Contains(l.Plan.EnvNames, "TOKEN") {
		t.Errorf("Env is %v", l.Env)
	}
}

// TestRefused: what can't be enforced is no container.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   func(*container.Input)
		info func(*container.Info)
		img  func(*container.Image)
		host container.Host
		code string
	}{
		"an image by tag":                {img: func(i *container.Image) { i.Name = "node:22" }, code: "image_not_pinned"},
		"an image by half a digest":      {img: func(i *container.Image) { i.Name = "node@sha256:ab" }, code: "image_not_pinned"},
		"another architecture":           {img: func(i *container.Image) { i.Arch = "arm64" }, code: "image_platform"},
		"a volume in a grant":            {img: func(i *container.Image) { i.Volumes = []string{"/w/cache"} }, code: "image_volume"},
		"a volume over /proc":            {img: func(i *container.Image) { i.Volumes = []string{"/proc"} }, code: "image_volume"},
		"Windows":                        {img: func(i *container.Image) { i.OS = "windows" }, code: "image_platform"},
		"SELinux":                        {info: func(i *container.Info) { i.Security = []string{"seccomp", "selinux"} }, code: "engine_selinux"},
		"transparent egress":             {in: func(in *container.Input) { in.Network.Mode = policy.ModeTransparent }, code: "field_unavailable"},
		"exposed ports":                  {in: func(in *container.Input) { in.Network.Expose = []policy.Expose{{}} }, code: "field_unavailable"},
		"a layer that isn't there":       {in: func(in *container.Input) { in.Require = []string{"landlock>=4"} }, code: "requirement_unmet"},
		"memory without a controller":    {info: func(i *container.Info) { i.CanLimit.Memory = false }, code: "limit_unavailable"},
		"memory with swap left on":       {info: func(i *container.Info) { i.CanLimit.Swap = false }, code: "limit_unavailable"},
		"cpus without a controller":      {info: func(i *container.Info) { i.CanLimit.CPU = false }, code: "limit_unavailable"},
		"pids without a controller":      {in: func(in *container.Input) { in.Limits.PIDs = 9 }, info: func(i *container.Info) { i.CanLimit.PIDs = false }, code: "limit_unavailable"},
		"a socket in a grant":            {host: host("/w/x/app.sock"), code: "socket_in_grant"},
		"the root":                       {in: func(in *container.Input) { in.Entries = []guard.Entry{dir("/", guard.ReadOnly)} }, code: "cannot_express"},
		"beneath /proc":                  {in: func(in *container.Input) { in.Entries = append(in.Entries, dir("/proc/sys", guard.ReadOnly)) }, code: "cannot_express"},
		"a device":                       {in: func(in *container.Input) { in.Entries = append(in.Entries, file("/dev/sda", guard.ReadOnly)) }, code: "cannot_express"},
		"pinfold's own directory":        {in: func(in *container.Input) { in.Maps[0].Target = "/.pinfold/run" }, code: "cannot_express"},
		"two things at one path":         {in: func(in *container.Input) { in.Maps[0].Target = "/home/u/docs" }, code: "mount_conflict"},
		"a mount point in a host's tree": {in: func(in *container.Input) { in.Maps[0].Target = "/w/missing" }, code: "no_mount_point"},
		"a socket beside a grant":        {in: func(in *container.Input) { in.Sockets = []guard.Socket{{Path: "/home/u/s"}} }, code: "cannot_express"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, info, img, h := full(), docker(), image(), c.host
			if c.in != nil {
				c.in(&in)
			}
			if c.info != nil {
				c.info(&info)
			}
			if c.img != nil {
				c.img(&img)
			}
			if h.Exists == nil {
				h = host()
			}
			l, err := container.TranslateInput(in, info, img, options(), h)
			r, ok := errors.AsType[*policy.Refusal](err)
			if !ok || r.Code != c.code || r.Fix == "" || l != nil {
				t.Errorf("got %v (%v), wanted %s", err, l != nil, c.code)
			}
		})
	}
}

// TestSocketsThatMayBe: listed, denied, elsewhere, or all.
func TestSocketsThatMayBe(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]container.Input{"listed": full(), "all": func() container.Input {
		in := full()
		in.UnixSockets = policy.SocketsAll
		return in
	}()} {
		listening := []string{"/w/own/s", "/w/secret/s", "/run/docker.sock"}
		if name == "all" {
			listening = append(listening, "/w/any")
		}
		if _, err := container.TranslateInput(in, docker(), image(), options(), host(listening...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := container.TranslateInput(full(), docker(), image(), options(), container.Host{
		Exists: host().Exists, Seccomp: host().Seccomp, Listening: func(context.Context, *container.Reach, bool) ([]string, error) { return nil, errors.New("no") },
	}); err == nil {
		t.Error("a listing that failed passes for none")
	}
}

// TestUsers: who the command is, on each kind of engine.
func TestUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		info   func(*container.Info)
		uid    int
		userns string
	}{
		"docker":          {func(*container.Info) {}, 1000, ""},
		"docker remapped": {func(i *container.Info) { i.Remapped = true }, 1000, "host"},
		"docker rootless": {func(i *container.Info) { i.Rootless = true }, 0, ""},
		"podman":          {func(i *container.Info) { i.Provider = "podman" }, 1000, ""},
		"podman rootless": {func(i *container.Info) { i.Provider, i.Rootless = "podman", true }, 1000, "keep-id"},
	} {
		info := docker()
		c.info(&info)
		l, err := container.TranslateInput(full(), info, image(), options(), host())
		if err != nil {
			t.Fatal(err)
		}
		if l.Spec.UID != c.uid || l.Spec.Userns != c.userns {
			t.Errorf("%s: user %d, namespace %q", name, l.Spec.UID, l.Spec.Userns)
		}
	}
}

// TestRespell: whole paths and nothing else.
// TestMissingNames: a name that could be made from inside gets a mount point on
// the host, with pinned directories on the way there.
func TestMissingNames(t *testing.T) {
	t.Parallel()
	in := full()
	in.Maps = []guard.Mapping{{Source: "/w", Target: "/kb", Access: guard.ReadWrite, Kind: guard.Dir, ID: guard.FileID{Dev: 1, Ino: 9}}}
	file := missing("/w/none.json", guard.Empty)
	file.Content = []byte("{}")
	in.Entries = append(in.Entries,
		missing("/w/a/b/none", guard.Deny), missing("/w/a/other", guard.ReadOnly), file, missing("/home/u/docs/none", guard.Deny))
	l, err := container.TranslateInput(in, docker(), image(), options(), host())
	if err != nil {
		t.Fatal(err)
	}
	want := []lease.Point{{Path: "/w/a", Dir: true}, {Path: "/w/a/b", Dir: true}, {Path: "/w/a/b/none", Dir: true}, {Path: "/w/a/other", Dir: true}, {Path: "/w/none.json"}}
	got := slices.Clone(l.Missing)
	slices.SortFunc(got, func(a, b lease.Point) int { return strings.Compare(a.Path, b.Path) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	for i, p := range l.Missing {
		if above := slices.IndexFunc(l.Missing, func(o lease.Point) bool { return o.Path == path.Dir(p.Path) }); above > i {
			t.Errorf("%s comes before what it lies in", p.Path)
		}
		if !p.Dir || !strings.HasSuffix(p.Path, "none") {
			continue
		}
		if !slices.Contains(l.Covered, p.Path) {
			t.Errorf("%s isn't among the covered ones", p.Path)
		}
	}
	for _, granted := range []string{"/w", "/home/u/docs"} { // another launch may have made what stands there
		if !slices.Contains(l.Covered, granted) {
			t.Errorf("%s isn't among what needs a lease", granted)
		}
	}
	for target, source := range map[string]string{"/w/a": "/w/a", "/w/a/b": "/w/a/b", "/kb/a": "/w/a", "/kb/a/b": "/w/a/b"} {
		if !slices.Contains(l.Spec.Mounts, container.Mount{Source: source, Target: target}) {
			t.Errorf("%s isn't pinned", target)
		}
	}
	for _, target := range []string{"/w/a/b/none", "/w/a/other", "/w/none.json", "/kb/a/b/none", "/kb/a/other", "/kb/none.json"} {
		if !slices.ContainsFunc(l.Spec.Mounts, func(m container.Mount) bool { return m.Target == target && m.ReadOnly && m.Source != target }) {
			t.Errorf("%s isn't covered", target)
		}
	}
}

func TestRespell(t *testing.T) {
	t.Parallel()
	spellings := []guard.Spelling{{Given: "/a/link", Canonical: "/real"}, {Given: "/a", Canonical: "/b"}}
	for in, want := range map[string]string{
		"/a/link": "/real", "/a/link/x": "/real/x", "--x=/a/link": "--x=/real", "/bin:/a/link:/c": "/bin:/real:/c", "/a/links": "/b/links",
		"x/a/link": "x/a/link", "cd /a/link": "cd /a/link", "/a/link:/a/link": "/real:/real", "": "", "/c": "/c",
	} {
		if got := container.Respell(spellings, in); got != want {
			t.Errorf("%q became %q, wanted %q", in, got, want)
		}
	}
}

// TestDeepestRuleWins: whatever the order of a Grant's entries, no mount comes
// before one that lies above it, and none stands twice at a path.
func TestDeepestRuleWins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfNDistinct(rapid.StringMatching(`(/[abc]){1,4}`), 1, 12, rapid.ID).Draw(t, "paths")
		slices.Sort(paths)
		in := container.Input{Argv: []string{"true"}, Dir: "/"}
		for _, p := range paths {
			a := rapid.SampledFrom([]guard.Access{guard.Deny, guard.Empty, guard.ReadOnly, guard.ReadWrite}).Draw(t, p)
			in.Entries = append(in.Entries, dir(p, a))
		}
		slices.SortFunc(in.Entries, func(a, b guard.Entry) int { return strings.Compare(a.Path, b.Path) })
		markPassable(in.Entries)
		h := host()
		h.Exists = func(string) bool { return true }
		l, err := container.TranslateInput(in, docker(), image(), options(), h)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range in.Entries {
			if e.Access >= guard.ReadOnly {
				m := at(t, l.Spec.Mounts, e.Path)
				if m.Source != e.Path || m.ReadOnly != (e.Access == guard.ReadOnly) {
					t.Errorf("%s is %s, got %+v", e.Path, e.Access, m)
				}
			}
		}
		seen := map[string]bool{}
		for _, m := range l.Spec.Mounts {
			if seen[m.Target] {
				t.Errorf("two mounts at %s", m.Target)
			}
			seen[m.Target] = true
			for p := range seen {
				if p != m.Target && strings.HasPrefix(p, m.Target+"/") {
					t.Errorf("%s comes after %s", m.Target, p)
				}
			}
		}
	})
}

func at(t *rapid.T, mounts []container.Mount, path string) container.Mount {
	for _, m := range mounts {
		if m.Target == path {
			return m
		}
	}
	t.Fatalf("nothing is mounted at %s", path)
	return container.Mount{}
}

// markPassable is what the guard does.
func markPassable(entries []guard.Entry) {
	for i := range entries {
		for _, e := range entries {
			if entries[i].Access < guard.ReadOnly && e.Access >= guard.ReadOnly && strings.HasPrefix(e.Path, entries[i].Path+"/") {
				entries[i].Passable = true
			}
		}
	}
}

// TestCovers: what is made answers as it should, and only once.
func TestCovers(t *testing.T) {
	t.Parallel()
	l, err := container.TranslateInput(full(), docker(), image(), options(), host())
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	checks, err := l.Covers.Make(scratch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range l.Covers {
			_ = os.Chmod(scratch+"/"+c.Name, 0o700) //nolint:errcheck // it only helps what follows
		}
	})
	inside := 0
	for _, c := range l.Covers {
		st, err := os.Lstat(scratch + "/" + c.Name)
		if err != nil && os.Getuid() == 0 {
			t.Error(err)
		}
		if err == nil && (st.IsDir() != c.Dir || st.Mode().Perm() != c.Mode) {
			t.Errorf("%s has mode %s, wanted %s", c.Name, st.Mode(), c.Mode)
		}
		if c.Inside != "" {
			inside++
		}
	}
	if len(checks) != inside {
		t.Errorf("%d checks for %d covers", len(checks), inside)
	}
	if _, err := l.Covers.Make(scratch); err == nil {
		t.Error("covers can be made over others")
	}
}

// TestMountLines: the plan says of each mount whose rule made it.
func TestMountLines(t *testing.T) {
	t.Parallel()
	l, err := container.TranslateInput(full(), docker(), image(), options(), host())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Plan.Mounts {
		if m.Rule == (guard.Rule{}) && m.Kind != "socket" {
			t.Errorf("no rule for %+v", m)
		}
	}
	if !slices.ContainsFunc(l.Plan.Mounts, func(m plan.Mount) bool { return m.Path == "/w/.git" && m.Access == "pin" }) {
		t.Errorf("no pin in %+v", l.Plan.Mounts)
	}
}
