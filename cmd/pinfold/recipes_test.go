package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRecipesAreGranted asks the guard and the back end for every policy of
// docs/recipes.md, in a home that has what the recipes say to make. Whatever
// this build refuses has no place on that page.
func TestRecipesAreGranted(t *testing.T) {
	t.Parallel()
	if !canSandbox(t) {
		t.Skip("no real launches here")
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, m := range regexp.MustCompile(`mkdir -p ~/(\S+)`).FindAllStringSubmatch(string(text), -1) {
		makeDir(t, filepath.Join(home, m[1]))
	}
	makeDir(t, filepath.Join(home, "ws"))
	blocks := regexp.MustCompile("(?ms)^## ([^\n]*)\n.*?^```jsonc\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d recipes were found: the search is broken", len(blocks))
	}
	for i, b := range blocks {
		t.Run(strings.ReplaceAll(b[1], " ", "_"), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(home, fmt.Sprintf("recipe-%d.jsonc", i))
			if err := os.WriteFile(file, []byte(b[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), "pinfold", "wrap", "--policy", file, "--", "true")
			run.Dir = filepath.Join(home, "ws")
			run.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.Getenv("TMPDIR")}
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func makeDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
