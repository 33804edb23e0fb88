package seatbelt

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold/guard"
	"pinfold/policy"
	"pinfold/seatbelt/sbpl"
)

var update = flag.Bool("update", false, "rewrite golden files")

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func entry(p string, a guard.Access, k guard.Kind, text string) guard.Entry {
	return guard.Entry{Path: p, Access: a, Kind: k, Rule: guard.Rule{Class: guard.ClassPolicy, Text: text, Source: "test"}}
}

// agent is a coding agent's grant, as the guard would make it.
func agent() view {
	return view{
		base: policy.BaseHost,
		entries: []guard.Entry{
			entry("/Users/ann/.aws", guard.Empty, guard.Dir, "~/.aws"),
			entry("/Users/ann/.netrc", guard.Empty, guard.File, "~/.netrc"),
			entry("/Users/ann/.ssh", guard.Empty, guard.Dir, "~/.ssh"),
			entry("/Users/ann/Library/Keychains", guard.Empty, guard.Dir, "~/Library/Keychains"),
			entry("/Users/ann/state", guard.Deny, guard.Dir, "--state"),
			entry("/Users/ann/w", guard.ReadWrite, guard.Dir, "{workspace}"),
			entry("/Users/ann/.ssh/known_hosts", guard.ReadOnly, guard.File, "~/.ssh/known_hosts"),
			entry("/Users/ann/w/.git/config", guard.ReadOnly, guard.File, ".git/config"),
			entry("/Users/ann/w/.git/hooks", guard.ReadOnly, guard.Dir, ".git/hooks"),
			entry("/Users/ann/w/secrets", guard.Deny, guard.Dir, "./secrets"),
			entry("/Users/ann/w/.env", guard.Deny, guard.Missing, "./.env"),
			entry("/Users/ann/w/secrets/public", guard.ReadWrite, guard.Dir, "./secrets/public"),
		},
		pins:    []guard.Pin{{Root: "/Users/ann/w", Path: "/Users/ann/w/.git"}},
		sockets: []guard.Socket{{Path: "/Users/ann/tool.sock", Rule: guard.Rule{Text: "{toolbelt}"}}},
	}
}

func options() Options {
	return Options{Proxy: true, Tmp: "/Users/ann/state/tmp/1", Listen: []uint16{3000}, Inside: "/usr/local/bin/pinfold"}
}

func build(t interface {
	Helper()
	Fatal(...any)
}, v view, o Options,
) (*sbpl.Profile, map[string]string) {
	t.Helper()
	text, err := profile(v, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := sbpl.Parse(text.At(49152, "pinfold-TAG"))
	if err != nil {
		t.Fatal(err)
	}
	params := text.Map()
	params["TTY"] = "/dev/ttys007"
	return p, params
}

// ask evaluates under every reading and fails where they disagree.
func ask(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *sbpl.Profile, params map[string]string, q sbpl.Query,
) bool {
	t.Helper()
	verdicts, err := p.EvalAll(q, params)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	for i, v := range verdicts {
		if v.Allow != verdicts[0].Allow {
			t.Fatalf("%+v: the readings disagree: %v under the first, %v under %d (%+v)", q, verdicts[0].Allow, v.Allow, i, v.Rule)
		}
	}
	return verdicts[0].Allow
}

// model is the guard's answer: the nearest entry, else the base.
func model(v view, p string) guard.Access {
	at := guard.ReadOnly
	for _, e := range v.entries {
		if p == e.Path || strings.HasPrefix(p, e.Path+"/") {
			at = e.Access
		}
	}
	return at
}

var (
	readQueries  = []string{"file-read-data", "file-read-xattr", "process-exec", "file-map-executable"}
	writeQueries = []string{
		"file-write-create", "file-write-data", "file-write-unlink", "file-write-mode", "file-write-owner",
		"file-write-flags", "file-write-times", "file-write-xattr", "file-mknod",
	}
)

// TestMatrix compares every operation at every path of interest with the
// guard's model.
func TestMatrix(t *testing.T) {
	t.Parallel()
	v := agent()
	p, params := build(t, v, options())
	pinned := map[string]bool{}
	for _, pin := range v.pins {
		pinned[pin.Path] = true
	}
	for _, e := range v.entries {
		pinned[e.Path] = pinned[e.Path] || e.Access == guard.ReadWrite
	}
	cases := 0
	for _, e := range v.entries {
		for _, tail := range []string{"", "/x", "/x/y", "x", "/.git/config", "/.."} {
			target := filepath.Clean(e.Path + tail)
			at := model(v, target)
			if e.Kind != guard.Dir && tail != "" && strings.HasPrefix(tail, "/") {
				continue // nothing can stand beneath a file
			}
			for _, op := range readQueries {
				cases++
				if got := ask(t, p, params, sbpl.Query{Op: op, Path: target}); got != (at >= guard.ReadOnly) {
					t.Errorf("%s %s: got %v, the guard says %v", op, target, got, at)
				}
			}
			for _, op := range writeQueries {
				cases++
				want := at == guard.ReadWrite && !(pinned[target] && slices.Contains(strings.Fields(keepOps), op))
				if got := ask(t, p, params, sbpl.Query{Op: op, Path: target}); got != want {
					t.Errorf("%s %s: got %v, the guard says %v", op, target, got, at)
				}
			}
		}
	}
	if cases < 500 {
		t.Errorf("only %d cases", cases)
	}
}

// TestRandomGrants: whatever the rules, nearest wins under every reading.
func TestRandomGrants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := view{base: rapid.SampledFrom([]policy.ReadBase{policy.BaseHost, policy.BaseNone}).Draw(t, "base")}
		seen := map[string]bool{}
		var walk func(dir string, depth int)
		walk = func(dir string, depth int) {
			for _, n := range []string{"a", "b"} {
				p := dir + "/" + n
				if rapid.Bool().Draw(t, p) && !seen[p] {
					seen[p] = true
					a := rapid.SampledFrom([]guard.Access{guard.Deny, guard.Empty, guard.ReadOnly, guard.ReadWrite}).Draw(t, "access")
					v.entries = append(v.entries, entry(p, a, guard.Dir, p))
				}
				if depth < 3 {
					walk(p, depth+1)
				}
			}
		}
		walk("/r", 0)
		p, params := build(t, v, Options{})
		target := "/r" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/a", "/b", "/c"}), 1, 5).Draw(t, "path"), "")
		at := guard.Deny
		if v.base == policy.BaseHost {
			at = guard.ReadOnly
		}
		for _, e := range v.entries {
			if target == e.Path || strings.HasPrefix(target, e.Path+"/") {
				at = e.Access
			}
		}
		if got := ask(t, p, params, sbpl.Query{Op: "file-read-data", Path: target}); got != (at >= guard.ReadOnly) {
			t.Fatalf("read %s: %v, model %v", target, got, at)
		}
		kept := slices.Contains(v.roots(), target)
		if got := ask(t, p, params, sbpl.Query{Op: "file-write-create", Path: target}); got != (at == guard.ReadWrite && !kept) {
			t.Fatalf("make %s: %v, model %v", target, got, at)
		}
		if got := ask(t, p, params, sbpl.Query{Op: "file-write-data", Path: target}); got != (at == guard.ReadWrite) {
			t.Fatalf("write %s: %v, model %v", target, got, at)
		}
	})
}

// TestHostTemporary: what is granted beneath the host's temporary directories
// can be looked up by realpath(3), and nothing else there can be read.
func TestHostTemporary(t *testing.T) {
	t.Parallel()
	v := view{entries: []guard.Entry{entry("/private/var/folders/zz/T/w", guard.ReadWrite, guard.Dir, "{workspace}")}}
	p, params := build(t, v, Options{})
	for path, want := range map[string][3]bool{ // metadata, data, making
		"/private/var/folders/zz/T/w/x": {true, true, true},
		"/private/var/folders/zz/T":     {true, false, false},
		"/private/var/folders/zz":       {true, false, false},
		"/private/var/folders":          {true, false, false},
		"/private/var":                  {true, true, false},
		"/private/var/folders/zz/T/x":   {false, false, false},
		"/private/var/folders/yy":       {false, false, false},
		"/private/tmp":                  {false, false, false},
	} {
		for i, op := range []string{"file-read-metadata", "file-read-data", "file-write-create"} {
			if got := ask(t, p, params, sbpl.Query{Op: op, Path: path}); got != want[i] {
				t.Errorf("%s %s: got %v", op, path, got)
			}
		}
	}
}

// TestClosed: a rule about a directory above doesn't open what is always
// closed; one about it, or beneath it, does.
func TestClosed(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]policy.ReadBase{"host": policy.BaseHost, "system": policy.BaseSystem, "none": policy.BaseNone} {
		v := view{base: base, entries: []guard.Entry{
			entry("/", guard.ReadOnly, guard.Dir, "/"), entry("/System", guard.ReadOnly, guard.Dir, "/System"),
			entry("/private", guard.ReadWrite, guard.Dir, "/private"), entry("/private/var/tmp", guard.ReadOnly, guard.Dir, "/var/tmp"),
			entry("/Volumes/.timemachine/b", guard.ReadOnly, guard.Dir, "backup"),
		}}
		p, params := build(t, v, Options{})
		for path, want := range map[string][2]bool{ // reading, making
			"/System/Volumes/Data/Users/ann/.ssh/id":          {false, false},
			"/System/Library/x":                               {true, false},
			"/.vol/1/2":                                       {false, false},
			"/Volumes/.timemachine/a":                         {false, false},
			"/Volumes/.timemachine/b/x":                       {true, false},
			"/Volumes/com.apple.TimeMachine.localsnapshots/x": {false, false},
			"/private/tmp/x":                                  {false, false},
			"/private/var/folders/a/T":                        {false, false},
			"/private/var/tmp/x":                              {true, false},
			"/private/x":                                      {true, true},
			"/private/TMP":                                    {true, false},
			"/dev/rdisk0":                                     {false, false},
		} {
			for i, op := range []string{"file-read-data", "file-write-create"} {
				if got := ask(t, p, params, sbpl.Query{Op: op, Path: path}); got != want[i] {
					t.Errorf("%s: %s %s: got %v", name, op, path, got)
				}
			}
		}
	}
}

// TestLinks: a link on the way to a grant can be read where its directory
// doesn't show, and that directory still can't be listed.
func TestLinks(t *testing.T) {
	t.Parallel()
	v := view{
		base: policy.BaseNone, links: []guard.Link{{Path: "/Users/ann/src", Target: "/Volumes/work/src"}},
		entries: []guard.Entry{entry("/Volumes/work/src", guard.ReadWrite, guard.Dir, "~/src")},
	}
	p, params := build(t, v, Options{})
	for path, want := range map[string][3]bool{
		"/Users/ann/src":      {true, true, false},
		"/Users/ann":          {true, false, false},
		"/Users/ann/x":        {false, false, false},
		"/Volumes/work":       {true, false, false},
		"/Volumes/work/src/x": {true, true, true},
	} {
		for i, op := range []string{"file-read-metadata", "file-read-data", "file-write-create"} {
			if got := ask(t, p, params, sbpl.Query{Op: op, Path: path}); got != want[i] {
				t.Errorf("%s %s: got %v", op, path, got)
			}
		}
	}
}

// TestSocketsShort: a socket beneath /private may be asked for by either name,
// and by no other.
func TestSocketsShort(t *testing.T) {
	t.Parallel()
	p, params := build(t, view{sockets: []guard.Socket{{Path: "/private/var/run/docker.sock"}, {Path: "/private/variety/s"}}}, Options{})
	for path, want := range map[string]bool{
		"/private/var/run/docker.sock": true, "/var/run/docker.sock": true, "/var/run/other.sock": false,
		"/private/variety/s": true, "/variety/s": false,
	} {
		if got := ask(t, p, params, sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: path}); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v view
		o Options
	}{
		"agent":    {agent(), options()},
		"tightest": {view{base: policy.BaseNone}, Options{}},
		"system":   {view{base: policy.BaseSystem, entries: []guard.Entry{entry("/Users/ann/w", guard.ReadWrite, guard.Dir, "{workspace}")}}, Options{Tmp: "/t"}},
		"trustd":   {view{}, Options{Trustd: true, Proxy: true}},
	} {
		text, err := profile(c.v, c.o)
		if err != nil {
			t.Fatal(err)
		}
		got := text.Profile
		for _, p := range text.Params {
			got += fmt.Sprintf("; -D %s=%s\n", p.Name, p.Value)
		}
		file := filepath.Join("testdata", name+".sb")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-golden +got; rewrite with -update):\n%s", name, d)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]view{
		"container":   {tier: policy.TierContainer},
		"not UTF-8":   {entries: []guard.Entry{entry("/w/\xff", guard.ReadWrite, guard.Dir, "x")}},
		"all sockets": {unix: policy.SocketsAll},
	} {
		if _, err := profile(v, Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzPath: whatever a path holds, the profile parses, has the path as one
// parameter, and grants that path alone.
func FuzzPath(f *testing.F) {
	f.Add(`/w/"a" (allow default)`)
	f.Add("/w/\n(allow default)")
	f.Add(`/w/\`)
	f.Fuzz(func(t *testing.T, s string) {
		p := filepath.Clean("/w/" + s)
		if !strings.HasPrefix(p, "/w/") {
			return
		}
		text, err := profile(view{base: policy.BaseNone, entries: []guard.Entry{entry(p, guard.ReadWrite, guard.Dir, s)}}, Options{})
		if err != nil {
			return
		}
		prof, err := sbpl.Parse(text.Profile)
		if err != nil {
			t.Fatal(err)
		}
		params := text.Map()
		params["TTY"] = "/dev/null"
		if !ask(t, prof, params, sbpl.Query{Op: "file-write-data", Path: p}) {
			t.Fatal("the granted path is refused")
		}
		if ask(t, prof, params, sbpl.Query{Op: "file-write-data", Path: "/other"}) {
			t.Fatal("another path is granted")
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add(`a"b\c`)
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "\x00") {
			return
		}
		p, err := sbpl.Parse("(version 1) (allow mach-lookup (global-name " + quote(s) + "))")
		if err != nil {
			t.Fatal(err)
		}
		v, err := p.Eval(sbpl.Query{Op: "mach-lookup", Name: s}, nil, sbpl.LastMatch)
		if err != nil || (s != "" && !v.Allow) || len(p.Rules) != 1 {
			t.Fatalf("%q became something else", s)
		}
	})
}
