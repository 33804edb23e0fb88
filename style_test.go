package pinfold_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const (
	maxFunctionLines = 80
	maxFileLines     = 400
)

func TestFunctionsAndFilesStayShort(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || s.isGenerated() {
			continue
		}
		if n := s.fset.Position(s.file.FileEnd).Line; n > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", s.path, n, maxFileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, at most %d", s.at(f), f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

// bannedCalls says why a call is not made, tests apart.
func bannedCalls() map[string]string {
	return map[string]string{
		"os.Create":       "it follows links and truncates: O_EXCL|O_NOFOLLOW, or os.Root",
		"os.IsNotExist":   "it doesn't unwrap: errors.Is",
		"os.IsExist":      "it doesn't unwrap: errors.Is",
		"os.IsPermission": "it doesn't unwrap: errors.Is",
		"os.IsTimeout":    "it doesn't unwrap: errors.Is",
		"exec.Command":    "CommandContext, with Cancel and WaitDelay",
		"fmt.Print":       "write to a stream that was passed in",
		"fmt.Printf":      "write to a stream that was passed in",
		"fmt.Println":     "write to a stream that was passed in",
		"log.Print":       "return the error",
		"log.Printf":      "return the error",
		"log.Fatal":       "return the error",
		"log.Fatalf":      "return the error",
		"log.Println":     "return the error",
		"os.Exit":         "only main.go exits",
		"time.Sleep":      "wait for the event itself",
	}
}

// mayCall are the exceptions, file and call, each with its reason.
func mayCall() map[string]string {
	return map[string]string{
		"bwrap/boundary_mend_linux.go time.Sleep": "the host doesn't tell when it has finished",
		"seatbelt/start.go exec.Command":          "a supervised process ends by signals, as the caller's does",
		"seatbelt/log.go exec.Command":            "it lives as long as the run",
	}
}

func TestBannedCalls(t *testing.T) {
	t.Parallel()
	banned, excepted := bannedCalls(), mayCall()
	for _, s := range sources(t) {
		if s.isTest() || strings.HasPrefix(s.dir, "integration") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := qualified(call.Fun)
			if why, ok := banned[name]; ok && !(name == "os.Exit" && s.file.Name.Name == "main") && excepted[s.path+" "+name] == "" {
				t.Errorf("%s: %s: %s", s.at(call), name, why)
			}
			return true
		})
	}
}

// qualified is "pkg.Name" for a selector on an identifier.
func qualified(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}

// TestExportedNamesAreDocumented covers functions, methods on exported types
// and types of every package that others may import.
func TestExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || s.isGenerated() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no doc comment", s.at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && ts.Doc == nil && d.Doc == nil {
						t.Errorf("%s: %s has no doc comment", s.at(ts), ts.Name.Name)
					}
				}
			}
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	if slices.Contains([]string{"Error", "String", "Unwrap", "Is", "Len", "Less", "Swap"}, f.Name.Name) {
		return false // what they do is known from the interface
	}
	expr := f.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	id, ok := expr.(*ast.Ident)
	return ok && id.IsExported()
}

// TestErrorsWrap: an error formatted with %v loses its cause.
func TestErrorsWrap(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.isTest() || strings.HasPrefix(s.dir, "integration") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || qualified(call.Fun) != "fmt.Errorf" || len(call.Args) < 2 {
				return true
			}
			format, ok := call.Args[0].(*ast.BasicLit)
			last, isIdent := call.Args[len(call.Args)-1].(*ast.Ident)
			if ok && isIdent && slices.Contains([]string{"err", "cause"}, last.Name) && !strings.Contains(format.Value, "%w") {
				t.Errorf("%s: wrap the error with %%w", s.at(call))
			}
			return true
		})
	}
}
