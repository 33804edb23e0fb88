package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold/policy"
)

const root = "../.."

// TestTroubleshootingListsEveryCode compares the codes that the program can
// refuse with, or print in a row of doctor's, and the ones that the page
// explains.
func TestTroubleshootingListsEveryCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if explained[m[1]] {
			t.Errorf("docs/troubleshooting.md explains %s twice", m[1])
		}
		explained[m[1]] = true
	}
	used := refusalCodes(t)
	if len(used) < 10 {
		t.Fatalf("only %d codes were found: the search is broken", len(used))
	}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		if !explained[code] {
			t.Errorf("docs/troubleshooting.md doesn't explain %s", code)
		}
		delete(explained, code)
	}
	for code := range explained {
		t.Errorf("docs/troubleshooting.md explains %s, which nothing refuses with", code)
	}
}

// ownCodes are packages whose codes aren't those of a refused launch, and have
// a page of their own: the reasons of a flow that was denied.
var ownCodes = []string{"egress"} //nolint:gochecknoglobals // a table

// derivedCodes are made of a flag's name.
var derivedCodes = []string{ //nolint:gochecknoglobals // a table
	"workspace_missing", "workspace_not_a_directory", "run_dir_missing", "run_dir_not_a_directory",
	"home_missing", "home_not_a_directory",
}

// refusalCodes finds the codes in the source: literals and constants given to
// a field Code of a Refusal, or to a parameter named code that ends there.
func refusalCodes(t *testing.T) map[string]bool {
	t.Helper()
	codes := map[string]bool{}
	for _, c := range derivedCodes {
		codes[c] = true
	}
	for dir, files := range sourcePackages(t) {
		if slices.Contains(ownCodes, filepath.Base(dir)) {
			continue
		}
		consts, params := packageCodes(files)
		note := func(e ast.Expr) {
			if s, ok := stringOf(e, consts); ok {
				codes[s] = true
			}
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					noteRefusal(n, note)
				case *ast.AssignStmt:
					noteAssigned(n, note)
				case *ast.ValueSpec:
					noteTable(n, note)
				case *ast.CallExpr:
					if i, ok := params[calleeName(n)]; ok && i < len(n.Args) {
						note(n.Args[i])
					}
				}
				return true
			})
		}
	}
	return codes
}

func noteRefusal(lit *ast.CompositeLit, note func(ast.Expr)) {
	name := ""
	switch typ := lit.Type.(type) {
	case *ast.Ident:
		name = typ.Name
	case *ast.SelectorExpr:
		name = typ.Sel.Name
	}
	if name != "Refusal" {
		return
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Code" {
				note(kv.Value)
			}
		}
	}
}

// codeTables are maps whose values are codes.
var codeTables = []string{"stepCodes"} //nolint:gochecknoglobals // a table

func noteTable(spec *ast.ValueSpec, note func(ast.Expr)) {
	if len(spec.Names) != 1 || len(spec.Values) != 1 || !slices.Contains(codeTables, spec.Names[0].Name) {
		return
	}
	if table, ok := spec.Values[0].(*ast.CompositeLit); ok {
		for _, e := range table.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				note(kv.Value)
			}
		}
	}
}

// noteAssigned notes what is assigned to a field Code.
func noteAssigned(n *ast.AssignStmt, note func(ast.Expr)) {
	for i, to := range n.Lhs {
		if sel, ok := to.(*ast.SelectorExpr); ok && sel.Sel.Name == "Code" && i < len(n.Rhs) {
			note(n.Rhs[i])
		}
	}
}

// packageCodes returns a package's string constants, and the functions that
// take a refusal code with the place of that parameter.
func packageCodes(files []*ast.File) (consts map[string]string, params map[string]int) {
	consts, params = map[string]string{}, map[string]int{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if s, ok := stringOf(n.Values[i], nil); ok {
							consts[name.Name] = s
						}
					}
				}
			case *ast.FuncDecl:
				if i := codeParam(n.Type); i >= 0 {
					params[n.Name.Name] = i
				}
			}
			return true
		})
	}
	return consts, params
}

// codeParam is the index of the string parameter named code, or -1.
func codeParam(ft *ast.FuncType) int {
	i := 0
	for _, field := range ft.Params.List {
		for _, name := range field.Names {
			typ, ok := field.Type.(*ast.Ident)
			if ok && typ.Name == "string" && name.Name == "code" {
				return i
			}
			i++
		}
	}
	return -1
}

func calleeName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func stringOf(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		s, ok := consts[e.Name]
		return s, ok
	}
	return "", false
}

func sourcePackages(t *testing.T) map[string][]*ast.File {
	t.Helper()
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// TestDocumentedPoliciesParse reads every policy that the documents show.
func TestDocumentedPoliciesParse(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```jsonc?\n(.*?)^```$")
	seen := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range block.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, err := policy.Parse([]byte(m[1]), page); err != nil {
				t.Errorf("policy %d of %s: %v", i+1, page, err)
			}
		}
	}
	if seen < 5 {
		t.Fatalf("only %d policies were found: the search is broken", seen)
	}
}
