package persist_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard/persist"
)

const budget = time.Minute

// tree makes files with their content, by relative path.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// begun begins once what was made is older than a tick of the kernel's clock,
// and lets another pass before anything is made.
func begun(t *testing.T, workspace string) *persist.Watch {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	w := persist.Begin(workspace)
	w.Began()
	time.Sleep(20 * time.Millisecond)
	return w
}

func findings(root string, r persist.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Change+" "+strings.TrimPrefix(f.Path, root+"/")+": "+f.What)
	}
	return out
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree(t, root, map[string]string{
		".envrc": "old", ".mcp.json": "old", "package.json": `{"scripts": {}}`, "web/package.json": `{"name": "a"}`,
		"lib/a.py": "", ".github/workflows/ci.yml": "old", ".vscode/tasks.json": "old",
	})
	w := begun(t, root)
	if r := w.Report([]string{root}, budget); len(r.Findings) > 0 || r.Partial {
		t.Fatalf("before anything was done: %+v", r)
	}
	w = begun(t, root)
	tree(t, root, map[string]string{
		".envrc": "changed", "web/package.json": `{"name": "b"}`, "package.json": `{"scripts": {"postinstall": "x"}}`,
		".github/workflows/new.yml": "new", "venv/lib/site-packages/evil.pth": "import x", "lib/a.py": "changed", "Makefile": "all:",
		"node_modules/x/package.json": `{"scripts": {}}`, ".husky/pre-commit": "x", ".claude/hooks/x": "x", "sub/.vscode/tasks.json": "{}",
	})
	if err := os.Symlink("/tmp/elsewhere", root+"/Jenkinsfile"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(root+"/.vscode/tasks.json", root+"/.vscode/launch.json"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"new .claude/hooks/x: agents", "changed .envrc: direnv", "new .github/workflows/new.yml: CI", "new .husky/pre-commit: git hooks",
		"changed .vscode/launch.json: editor tasks", "new Jenkinsfile: CI", "changed package.json: package scripts",
		"new sub/.vscode/tasks.json: editor tasks", "new venv/lib/site-packages/evil.pth: Python start-up",
	}
	if diff := cmp.Diff(want, findings(root, w.Report([]string{root}, budget))); diff != "" {
		t.Error(diff)
	}
}

// A time that a program sets says nothing.
func TestTimesCannotBeSet(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := begun(t, root)
	tree(t, root, map[string]string{".envrc": "x"})
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(root+"/.envrc", old, old); err != nil {
		t.Fatal(err)
	}
	if got := findings(root, w.Report([]string{root}, budget)); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestRepositories(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"version 2": nil, "version 4": {"-c", "index.version=4"}, "sha256": {"--sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			config, object := args, strings.Repeat("1", 40)
			if name == "sha256" {
				git(t, root, "init", "-q", "--object-format=sha256")
				config, object = nil, strings.Repeat("1", 64)
			} else {
				git(t, root, "init", "-q")
			}
			tree(t, root, map[string]string{"a": "1", "ab/c": "2", "abc/d/e": "3"})
			git(t, root, append(config, "add", "-A")...)
			git(t, root, append(config, "update-index", "--add", "--cacheinfo", "160000,"+object+",known")...)
			w := begun(t, root)
			tree(t, root, map[string]string{"b/new": "4", ".git/hooks/pre-push": "x", ".git/hooks/x.sample": "x"})
			git(t, root, append(config, "add", "-A", "b")...)
			git(t, root, append(config, "update-index", "--add", "--cacheinfo", "160000,"+object+",ab/planted")...)
			git(t, root, "config", "core.fsmonitor", "x")
			git(t, root, "init", "-q", "vendor/inner")
			want := []string{
				"new .git/config: git configuration", "new .git/hooks/pre-push: git hooks", "new ab/planted: gitlink", "new vendor/inner/.git: nested repository",
			}
			r := w.Report([]string{root}, budget)
			got := findings(root, r)
			for i := range got { // git writes its configuration anew and renames it
				got[i] = strings.Replace(got[i], "changed .git/config", "new .git/config", 1)
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" || r.Partial {
				t.Errorf("partial: %v\n%s", r.Partial, diff)
			}
		})
	}
}

// What somebody planted neither holds the report up nor leads it elsewhere.
func TestHostileTree(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), t.TempDir()
	w := begun(t, root)
	tree(t, other, map[string]string{".envrc": "x"})
	for _, err := range []error{
		os.Symlink(other, root+"/link"), os.Symlink(root, root+"/loop"), syscall.Mkfifo(root+"/package.json", 0o644),
		os.Mkdir(root+"/.git", 0o755), syscall.Mkfifo(root+"/.git/index", 0o644), os.Mkdir(root+"/.envrc", 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := findings(root, w.Report([]string{root}, budget))
	if diff := cmp.Diff([]string{"new .git: nested repository", "new package.json: package scripts"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := begun(t, root)
	deep := root
	for range 66 {
		deep += "/d"
	}
	tree(t, deep, map[string]string{".envrc": "x"})
	if r := w.Report([]string{root}, budget); !r.Partial || len(r.Findings) != 0 {
		t.Errorf("beyond the depth: %+v", r)
	}
	tree(t, root, map[string]string{".envrc": "x"})
	tree(t, root+"/sub", map[string]string{"a": ""})
	if r := w.Report([]string{root}, -time.Second); !r.Partial {
		t.Errorf("without time: %+v", r)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + strings.Repeat("\x00", 90)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x01", 90)))
	f.Fuzz(func(t *testing.T, b []byte) {
		links, ok := persist.ParseIndex(b)
		if !ok && links != nil {
			t.Error("names out of an index that isn't one")
		}
	})
}

// What lies at the top is found though there is no time for what is beneath.
func TestTheTopComesFirst(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 40 {
		for j := range 40 {
			if err := os.MkdirAll(filepath.Join(root, "a"+strings.Repeat("x", i), strings.Repeat("y", j+1)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := begun(t, root)
	tree(t, root, map[string]string{"zz.pth": "x", "z/.envrc": "x"})
	got := findings(root, w.Report([]string{root}, 50*time.Microsecond))
	if len(got) == 0 || got[len(got)-1] != "new zz.pth: Python start-up" {
		t.Errorf("got %q", got)
	}
}
