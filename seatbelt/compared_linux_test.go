package seatbelt_test

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/policy"
	"pinfold/seatbelt"
	"pinfold/seatbelt/sbpl"
)

// The operations that are asked about, by what the guard calls them.
var (
	reads  = []string{"file-read-data", "file-read-xattr", "process-exec", "process-exec-interpreter", "file-map-executable", "file-lock"}
	looks  = []string{"file-read-metadata", "file-test-existence"}
	writes = []string{
		"file-write-create", "file-write-data", "file-write-unlink", "file-write-mode", "file-write-owner", "file-write-flags",
		"file-write-times", "file-write-xattr", "file-write-acl", "file-write-setugid", "file-mknod",
	}
	makes = []string{"file-write-create", "file-write-unlink", "file-mknod"}
	never = []string{"file-link", "file-clone", "file-search", "file-mount", "file-chroot", "file-issue-extension", "file-ioctl"}
)

// compared is a Grant beside the profile made of it.
type compared struct {
	grant    *guard.Grant
	profile  *sbpl.Profile
	params   map[string]string
	pins     map[string]bool
	stricter map[string]bool // directories that could carry a name into place
	unmade   []string
	cases    int
}

func compare(t failer, g *guard.Grant) *compared {
	t.Helper()
	o := seatbelt.Options{Proxy: true, HostPorts: g.Network().HostPorts}
	for _, e := range g.Network().Expose {
		o.Listen = append(o.Listen, e.Inside)
	}
	text, err := seatbelt.Profile(g, o)
	if err != nil {
		t.Fatalf("no profile: %v", err)
	}
	c := &compared{grant: g, params: text.Map(), pins: map[string]bool{}, stricter: map[string]bool{}}
	c.params["TTY"] = "/dev/null"
	if c.profile, err = sbpl.Parse(text.At(3128, "pinfold-TAG")); err != nil {
		t.Fatalf("%v\n%s", err, text.Profile)
	}
	for _, p := range g.Pins() {
		c.pins[p.Path] = true
	}
	for _, e := range g.Entries() {
		c.pins[e.Path] = c.pins[e.Path] || e.Access == guard.ReadWrite && e.Kind == guard.Dir
	}
	for _, e := range g.Entries() {
		if e.Kind == guard.Missing && e.Access != guard.ReadWrite {
			c.note(e.Path)
		}
	}
	for _, w := range g.Watches() {
		c.note(w.Path)
	}
	return c
}

// note works out, in its own way, which directories an unmade name needs.
func (c *compared) note(p string) {
	root := ""
	for _, e := range c.grant.Entries() {
		if e.Path != p && e.Kind != guard.Missing && strings.HasPrefix(p, e.Path+"/") {
			root = map[bool]string{true: e.Path}[e.Access == guard.ReadWrite]
		}
	}
	if root == "" {
		return
	}
	c.unmade = append(c.unmade, p)
	for d := filepath.Dir(p); len(d) > len(root); d = filepath.Dir(d) {
		c.stricter[d] = true
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func (c *compared) ask(t failer, op, path string) bool {
	t.Helper()
	return c.askFor(t, sbpl.Query{Op: op, Path: path})
}

// askFor evaluates under every reading, which must agree.
func (c *compared) askFor(t failer, q sbpl.Query) bool {
	t.Helper()
	c.cases++
	verdicts, err := c.profile.EvalAll(q, c.params)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	for i, v := range verdicts {
		if v.Allow != verdicts[0].Allow {
			t.Fatalf("%+v: the readings disagree: %v under the first, %v under %d", q, verdicts[0].Allow, v.Allow, i)
		}
	}
	return verdicts[0].Allow
}

// check compares every operation at a path with what the guard says of it.
// The path must be canonical: that is what the kernel asks by.
func (c *compared) check(t failer, path string) {
	t.Helper()
	e, err := c.grant.Explain(path)
	if err != nil || e.Canonical != path {
		t.Fatalf("cannot explain %s: %+v, %v", path, e, err)
	}
	readable := e.Looks == "read-only" || e.Looks == "read-write"
	for _, op := range reads {
		if got := c.ask(t, op, path); got != readable {
			t.Fatalf("%s %s: the profile says %v, the guard %+v", op, path, got, e)
		}
	}
	c.looked(t, path, readable)
	c.connects(t, path)
	for _, op := range writes {
		want := e.Writable && !(c.pins[path] && (op == "file-write-unlink" || op == "file-write-create")) && !(c.stricter[path] && slices.Contains(makes, op))
		if got := c.ask(t, op, path); got != want {
			t.Fatalf("%s %s: the profile says %v, the guard %+v", op, path, got, e)
		}
	}
	for _, op := range never {
		if c.ask(t, op, path) {
			t.Fatalf("%s %s: allowed", op, path)
		}
	}
	if c.ask(t, "file-read-data", "/System/Volumes/Data"+path) {
		t.Fatalf("%s can be read by its other name", path)
	}
}

// absent: what isn't there is refused all the same.
func (c *compared) absent(t failer, path string) {
	t.Helper()
	if e, err := c.grant.Explain(path); err != nil || e.Readable || e.Writable {
		t.Fatalf("%s: the guard says %+v, %v", path, e, err)
	}
	for _, op := range []string{"file-read-data", "process-exec", "file-write-create"} {
		if c.ask(t, op, path) || c.ask(t, op, path+"/x") {
			t.Fatalf("%s %s: allowed", op, path)
		}
	}
}

// looked: a directory on the way to something granted may be looked up, as
// what is readable may, and nothing else.
func (c *compared) looked(t failer, path string, readable bool) {
	t.Helper()
	want := readable || slices.ContainsFunc(c.grant.Entries(), func(e guard.Entry) bool {
		return e.Access >= guard.ReadOnly && strings.HasPrefix(e.Path, path+"/")
	})
	for _, op := range looks {
		if got := c.ask(t, op, path); got != want && !c.onLink(path) {
			t.Fatalf("%s %s: the profile says %v", op, path, got)
		}
	}
}

// onLink: links, and the directories above them, may be looked up too.
func (c *compared) onLink(path string) bool {
	return slices.ContainsFunc(c.grant.Links(), func(l guard.Link) bool { return strings.HasPrefix(l.Path+"/", path+"/") })
}

// connects: a unix socket is reached where the Grant lists it, and bound
// nowhere in the tree.
func (c *compared) connects(t failer, path string) {
	t.Helper()
	listed := slices.ContainsFunc(c.grant.Sockets(), func(s guard.Socket) bool { return s.Path == path })
	for op, want := range map[string]bool{"network-outbound": listed, "network-bind": false, "network-inbound": false} {
		if got := c.askFor(t, sbpl.Query{Op: op, Proto: "unix-socket", Path: path}); got != want {
			t.Fatalf("%s %s: the profile says %v", op, path, got)
		}
	}
}

// reaches: of the network, the proxy's port and what the policy lists.
func (c *compared) reaches(t failer) {
	t.Helper()
	n := c.grant.Network()
	for _, host := range []string{"127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "169.254.169.254", "10.0.0.1"} {
		for _, port := range []uint16{3128, 5432, 3000, 80, 53} {
			at := netip.AddrPortFrom(netip.MustParseAddr(host), port)
			loopback := at.Addr().IsLoopback()
			out := loopback && (port == 3128 || slices.Contains(n.HostPorts, port))
			listen := slices.ContainsFunc(n.Expose, func(e policy.Expose) bool { return e.Inside == port })
			for _, q := range []struct {
				sbpl.Query
				want bool
			}{
				{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at}, out},
				{sbpl.Query{Op: "network-outbound", Proto: "udp", Remote: at}, false},
				{sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at}, listen},
				{sbpl.Query{Op: "network-inbound", Proto: "tcp", Local: at}, listen},
				{sbpl.Query{Op: "network-bind", Proto: "udp", Local: at}, false},
			} {
				if got := c.askFor(t, q.Query); got != q.want {
					t.Fatalf("%+v: the profile says %v", q.Query, got)
				}
			}
		}
	}
}

// spellings asks for names that must not be made in other spellings.
func (c *compared) spellings(t failer) {
	for _, p := range c.unmade {
		dir, name := filepath.Split(p)
		for _, other := range []string{strings.ToUpper(name), strings.ReplaceAll(name, "s", "\u017f"), strings.ReplaceAll(name, "k", "\u212a"), strings.ReplaceAll(name, "fi", "\ufb01")} {
			for _, op := range makes {
				if c.ask(t, op, dir+other) {
					t.Fatalf("%s %s: allowed, though %s isn't", op, dir+other, p)
				}
			}
		}
	}
	// What stands there isn't replaced by another spelling of it.
	for _, e := range c.grant.Entries() {
		dir, name := filepath.Split(e.Path)
		above, err := c.grant.Explain(strings.TrimSuffix(dir, "/"))
		if err != nil || !above.Writable || e.Kind == guard.Missing || e.Access == guard.ReadWrite && e.Kind != guard.Dir {
			continue
		}
		for _, other := range []string{strings.ToUpper(name), strings.ToLower(name), strings.ReplaceAll(name, "s", "\u017f")} {
			if c.ask(t, "file-write-create", dir+other) || c.ask(t, "file-write-unlink", dir+other) {
				t.Fatalf("%s may be given up or replaced as %s", e.Path, dir+other)
			}
		}
	}
}
