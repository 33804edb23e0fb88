// Package pinfold_test keeps the house in order: which package may import
// which, and the rules of style that no linter knows.
package pinfold_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "pinfold"

// source is one parsed Go file of this module.
type source struct {
	path string // slash-separated, from the top
	dir  string
	file *ast.File
	fset *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) isGenerated() bool { return ast.IsGenerated(s.file) }

// imports lists the import paths of the file.
func (s source) imports() []string {
	var out []string
	for _, spec := range s.file.Imports {
		out = append(out, strings.Trim(spec.Path.Value, `"`))
	}
	return out
}

// sources parses every Go file of the module, whatever its build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(p)
		out = append(out, source{slashed, path.Dir(slashed), file, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files: not the top of the module?", len(out))
	}
	return out
}

// mayImport says for each room of the house which others it may import. A
// folder that isn't named here belongs to the room of its nearest parent, and
// a room may import its own parts. Back ends never import each other.
func mayImport() map[string][]string {
	ground := []string{"policy", "guard"}
	parts := append([]string{"trusted", "plan", "lease", "supervise", "egress", "event", "notify", "stub", "stub/wire", "stub/seccomp"}, ground...)
	backEnds := append([]string{"bwrap", "seatbelt", "container"}, parts...)
	return map[string][]string{
		"policy":       nil,
		"trusted":      nil,
		"hostgit":      {"policy", "trusted"},
		"guard":        {"policy"},
		"event":        nil,
		"plan":         {"policy", "guard", "event"},
		"lease":        {"plan", "policy"},
		"supervise":    {"policy", "egress", "event", "plan", "stub/wire", "stub/seccomp"},
		"egress":       {"policy", "guard", "event"},
		"notify":       {"event"},
		"stub":         {"stub/wire"},
		"stub/wire":    nil,
		"stub/init":    {"stub/wire"},
		"stub/seccomp": nil,
		"bwrap":        parts,
		"seatbelt":     parts,
		"container":    parts,
		"recover":      backEnds,
		"doctor":       backEnds,
		"cmd":          append([]string{"recover", "doctor", "hostgit"}, backEnds...),
		"integration":  append([]string{"recover", "doctor"}, backEnds...),
		".":            nil,
	}
}

// testsMayImport is what a room's tests may import besides. The stub's run it
// as a launch does: embedded, under the filter.
func testsMayImport() map[string][]string {
	return map[string][]string{
		"stub/init": {"stub", "stub/seccomp"},
		"notify":    {"stub/seccomp"},
	}
}

// room finds the room that a folder belongs to.
func room(rooms map[string][]string, dir string) (string, bool) {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := rooms[dir]; ok {
			return dir, true
		}
	}
	return "", false
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	rooms := mayImport()
	for _, s := range sources(t) {
		if s.dir == "." {
			continue
		}
		from, ok := room(rooms, s.dir)
		if !ok {
			t.Errorf("%s: folder %q has no room in mayImport", s.path, s.dir)
			continue
		}
		allowed := rooms[from]
		if s.isTest() {
			allowed = slices.Concat(allowed, testsMayImport()[from])
		}
		for _, imported := range s.imports() {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			to, ok := room(rooms, dir)
			if !ok || to != from && !slices.Contains(allowed, to) {
				t.Errorf("%s: %s may not import %s", s.path, from, imported)
			}
		}
	}
}

// onlyIn names the folders that alone may import a package (or anything
// beneath it).
func onlyIn() map[string][]string {
	return map[string][]string{
		"github.com/urfave/cli":                {"cmd/pinfold"},
		"github.com/seccomp/libseccomp-golang": {"stub/seccomp"},
		"github.com/tailscale/hujson":          {"policy"},
		"github.com/moby/moby/client":          {"container"},
		"github.com/moby/moby/api":             {"container"},
		"C":                                    nil,
	}
}

// neverIn names what a room must not import, tests apart.
func neverIn() map[string][]string {
	return map[string][]string{
		"policy": {"os/exec", "net/http", "syscall", "golang.org/x/sys"},
		"event":  {"os/exec", "net", "net/http"},
		"plan":   {"os/exec", "net", "net/http"},
		"guard":  {"os/exec", "net", "net/http"},
		"egress": {"os/exec"},
		"stub":   {"os/exec", "net", "net/http"},
	}
}

func isOrBeneath(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

func TestLibrariesStayInTheirRooms(t *testing.T) {
	t.Parallel()
	rooms := mayImport()
	for _, s := range sources(t) {
		for _, imported := range s.imports() {
			for library, folders := range onlyIn() {
				if isOrBeneath(imported, library) && !slices.ContainsFunc(folders, func(f string) bool { return isOrBeneath(s.dir, f) }) {
					t.Errorf("%s: only %v may import %s", s.path, folders, library)
				}
			}
			if s.isTest() {
				continue
			}
			for name, banned := range neverIn() {
				if from, _ := room(rooms, s.dir); isOrBeneath(from, name) && slices.Contains(banned, imported) {
					t.Errorf("%s: %s may not import %s", s.path, name, imported)
				}
			}
		}
	}
}

// TestStubStaysSmall: the program inside the boundary links neither network
// code nor anything slow to start.
func TestStubStaysSmall(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./stub/init")
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot list what the stub links: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/stub/wire") {
		t.Fatalf("the stub doesn't import stub/wire: %v", deps)
	}
	allowed := []string{"golang.org/x/sys", "kernel.org", "github.com/landlock-lsm/go-landlock/landlock/syscall", module + "/stub/wire", module + "/stub/init"}
	for _, dep := range deps {
		external := strings.Contains(strings.Split(dep, "/")[0], ".") || isOrBeneath(dep, module)
		if external && !strings.HasPrefix(dep, "vendor/") && !slices.ContainsFunc(allowed, func(a string) bool { return isOrBeneath(dep, a) }) {
			t.Errorf("the stub links %s", dep)
		}
		if slices.Contains([]string{"net", "net/http", "os/exec", "encoding/json", "crypto/tls"}, dep) {
			t.Errorf("the stub links %s", dep)
		}
	}
}

// TestNothingLinksCgo: the product is pure Go; the generator of the seccomp
// programs, with a build constraint of its own, is not part of it.
func TestNothingLinksCgo(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/pinfold")
	cmd.Env = append(cmd.Environ(), "GOOS=linux", "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot list what pinfold links: %v", err)
	}
	if strings.Contains(string(out), "libseccomp") {
		t.Error("bin/pinfold links libseccomp")
	}
}

func TestEachPackageHasOneDoc(t *testing.T) {
	t.Parallel()
	docs := map[string][]string{}
	names := map[string]string{}
	for _, s := range sources(t) {
		name := s.file.Name.Name
		if s.isTest() && s.dir != "." {
			continue
		}
		names[s.dir] = name
		if s.file.Doc != nil {
			docs[s.dir] = append(docs[s.dir], s.path)
			if text := s.file.Doc.Text(); name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
				t.Errorf("%s: the package doc must start with %q", s.path, "Package "+name)
			}
		}
	}
	for dir := range names {
		if len(docs[dir]) != 1 {
			t.Errorf("package in %s has %d package docs %v, want one", dir, len(docs[dir]), docs[dir])
		}
	}
}

func (s source) at(n ast.Node) string { return fmt.Sprint(s.fset.Position(n.Pos())) }
