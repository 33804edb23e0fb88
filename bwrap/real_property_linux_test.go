package bwrap_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
	"pinfold/stub"
)

// world is a random tree and random rules about it.
type world struct {
	dirs  []string // relative, parents first; each holds a file "f"
	rules []worldRule
}

type worldRule struct{ list, path string }

// drawWorld draws a tree at most three deep and up to seven rules: about its
// directories, its files, and names that aren't there.
func drawWorld(t *rapid.T) world {
	w := world{dirs: []string{"."}}
	for range 3 {
		for _, dir := range w.dirs {
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "a-"}), 0, 2, rapid.ID).Draw(t, "names") {
				p := filepath.Join(dir, name)
				if len(w.dirs) < 14 && !contains(w.dirs, p) {
					w.dirs = append(w.dirs, p)
				}
			}
		}
	}
	for range rapid.IntRange(1, 7).Draw(t, "rules") {
		p := rapid.SampledFrom(w.dirs).Draw(t, "path")
		if name := rapid.SampledFrom([]string{"", "", "", "f", "missing"}).Draw(t, "name"); name != "" {
			p = filepath.Join(p, name)
		}
		w.rules = append(w.rules, worldRule{rapid.SampledFrom([]string{"write", "write", "read_only", "deny", "allow"}).Draw(t, "list"), p})
	}
	return w
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// lay makes the tree.
func (w world) lay(t *testing.T, top string) {
	t.Helper()
	for _, dir := range w.dirs {
		file(t, filepath.Join(top, dir, "f"), "content of "+dir+"\n")
	}
}

// policy writes the rules down, in random order.
func (w world) policy(top string) *policy.Policy {
	p := &policy.Policy{GuardWorkspace: policy.GuardWorkspace{Off: true}}
	for _, i := range rand.Perm(len(w.rules)) {
		r := w.rules[i]
		list := map[string]*[]policy.PathRule{"write": &p.Write, "read_only": &p.ReadOnly, "deny": &p.Read.Deny, "allow": &p.Read.Allow}[r.list]
		*list = append(*list, literal(filepath.Join(top, r.path))...)
	}
	return p
}

// paths are all that there is, and a name in each directory that isn't there.
func (w world) paths(top string) (files, dirs, missing []string) {
	for _, dir := range w.dirs {
		p := filepath.Join(top, dir)
		dirs, files, missing = append(dirs, p), append(files, p+"/f"), append(missing, p+"/missing")
	}
	return files, dirs, missing
}

// probe is a script that says of each path whether it can be read and written.
func probe(files, dirs, missing []string) string {
	var s strings.Builder
	s.WriteString("yes() { if ( eval \"$1\" ) >/dev/null 2>&1; then printf y; else printf n; fi; }\n")
	for _, p := range files {
		fmt.Fprintf(&s, "yes '[ -n \"$(cat %[1]s)\" ]'; yes ': >>%[1]s'; echo\n", p)
	}
	for _, p := range dirs {
		fmt.Fprintf(&s, "yes 'ls %[1]s'; yes 'mkdir %[1]s/probe && rmdir %[1]s/probe'; echo\n", p)
	}
	for _, p := range missing {
		fmt.Fprintf(&s, "printf -; yes ': >%[1]s && rm %[1]s'; echo\n", p)
	}
	return s.String()
}

// TestSandboxIsTheModel: in a real sandbox, what can be read and written of
// random trees under random rules is what the guard says of them.
func TestSandboxIsTheModel(t *testing.T) {
	t.Parallel()
	m := realMachine(t)
	runs := 12
	if n, err := strconv.Atoi(os.Getenv("PINFOLD_PROPERTY_RUNS")); err == nil {
		runs = n
	}
	gen := rapid.Custom(drawWorld)
	ran := 0
	for seed := 0; ran < runs && seed < 20*runs; seed++ {
		w := gen.Example(seed)
		top := lab(t)
		w.lay(t, top)
		g, err := guard.GuardLaunch(t.Context(), w.policy(top), guard.Request{
			Argv: []string{"true"}, Dir: "/", CallerDir: "/", UID: os.Getuid(), GID: os.Getgid(), Env: []string{"PATH=/usr/bin:/bin"},
		}, nil)
		if errors.Is(err, policy.ErrDenied) {
			continue // a contradiction, or a grant that isn't there
		}
		must(t, err)
		ran++
		w.compare(t, m, g, top)
		must(t, g.Close())
	}
	t.Logf("%d worlds", ran)
	if ran < runs {
		t.Errorf("%d of %d worlds were refused", 20*runs-ran, 20*runs)
	}
}

func (w world) compare(t *testing.T, m bwrap.Machine, g *guard.Grant, top string) {
	t.Helper()
	l, err := bwrap.Translate(g, m, bwrap.Options{Umask: 0o022})
	if errors.Is(err, stub.ErrNotBuilt) && os.Getenv("PINFOLD_INTEGRATION") != "1" {
		t.Skip("the stub is not built")
	}
	must(t, err)
	files, dirs, missing := w.paths(top)
	l.Setup.Argv = []string{"/bin/sh", "-c", probe(files, dirs, missing)}
	out, o := gather(t)
	p, err := bwrap.Start(t.Context(), l, bwrap.StartOptions{Streams: bwrap.Streams{Stdout: out}, State: top + "-state"})
	must(t, err)
	out.Close()
	_, err = p.Wait()
	must(t, err)
	must(t, os.RemoveAll(top+"-state"))
	got := strings.Fields(o.all())
	all := append(append(files, dirs...), missing...)
	if len(got) != len(all) {
		t.Fatalf("%+v: the script said %q", w, got)
	}
	for i, path := range all {
		e, err := g.Explain(path)
		must(t, err)
		want := sayYes(e.Readable) + sayYes(e.Writable)
		if i >= len(files)+len(dirs) {
			want = "-" + sayYes(e.Writable)
		}
		if got[i] != want {
			t.Errorf("%q: inside %s, the guard says %s (%s by %q)\nrules: %v", path, got[i], want, e.Looks, e.Rule.Text, w.rules)
		}
	}
}

func sayYes(b bool) string {
	if b {
		return "y"
	}
	return "n"
}
