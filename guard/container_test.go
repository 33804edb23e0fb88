package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// contain runs the gate for a container over a fresh directory.
func contain(t *testing.T, text string, files map[string]string) (*guard.Grant, string, error) {
	t.Helper()
	home := t.TempDir()
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := linkTo(content); ok {
			err = os.Symlink(filepath.Join(home, target), file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := policy.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.GuardLaunch(t.Context(), p, guard.Request{
		Argv: []string{"true"}, Workspace: filepath.Join(home, "w"), CallerDir: filepath.Join(home, "w"), Home: home, UID: os.Getuid(), GID: os.Getgid(),
	}, nil)
	if err == nil {
		t.Cleanup(func() { g.Close() })
	}
	return g, home, err
}

func linkTo(content string) (string, bool) {
	if len(content) > 3 && content[:3] == "-> " {
		return content[3:], true
	}
	return "", false
}

// TestContainerMounts: container.mounts is granted like any other path, and
// said apart.
func TestContainerMounts(t *testing.T) {
	t.Parallel()
	files := map[string]string{"w/f": "1", "docs/a": "1", "docs/.ssh/x": "1", ".ssh/id": "1", "link": "-> docs"}
	g, home, err := contain(t, `{"tier": "container", "write": ["{workspace}"], "container": {"mounts": [
		{"source": "~/link", "target": "/kb"}, {"source": "{workspace}", "target": "/work", "mode": "rw"}]}}`, files)
	if err != nil {
		t.Fatal(err)
	}
	maps := g.Mappings()
	if len(maps) != 2 || maps[0].Source != home+"/docs" || maps[0].Target != "/kb" || maps[0].Access != guard.ReadOnly || maps[0].Kind != guard.Dir ||
		maps[1].Access != guard.ReadWrite || maps[0].ID == (guard.FileID{}) {
		t.Errorf("%+v", maps)
	}
	if !slices.ContainsFunc(g.Entries(), func(e guard.Entry) bool { return e.Path == home+"/docs" && e.Access == guard.ReadOnly }) {
		t.Errorf("the source isn't granted: %+v", g.Entries())
	}
	if want := (guard.Spelling{Given: home + "/link", Canonical: home + "/docs"}); !slices.Contains(g.Spellings(), want) {
		t.Errorf("no spelling of the link in %+v", g.Spellings())
	}
	for name, c := range map[string]struct{ mounts, code string }{
		"missing":              {`{"source": "~/none", "target": "/x"}`, "mount_missing"},
		"holds a default deny": {`{"source": "~/.ssh/id", "target": "/x", "mode": "rw"}`, "default_deny"},
	} {
		_, _, err := contain(t, `{"tier": "container", "write": ["{workspace}"], "container": {"mounts": [`+c.mounts+`]}}`, files)
		if r, ok := err.(*policy.Refusal); !ok || r.Code != c.code { //nolint:errorlint // GuardLaunch returns them bare
			t.Errorf("%s: got %v, wanted %s", name, err, c.code)
		}
	}
}

// TestProcessTierMountsNothing: container.mounts grants nothing there.
func TestProcessTierMountsNothing(t *testing.T) {
	t.Parallel()
	g, home, err := contain(t, `{"write": ["{workspace}"], "read": {"base": "none"}, "container": {"mounts": [{"source": "~/docs", "target": "/kb"}]}}`,
		map[string]string{"w/f": "1", "docs/a": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Mappings()) > 0 || slices.ContainsFunc(g.Entries(), func(e guard.Entry) bool { return e.Path == home+"/docs" }) {
		t.Errorf("%+v, %+v", g.Mappings(), g.Entries())
	}
}
