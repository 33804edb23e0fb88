//go:build linux

package container_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold/container/image"
)

// TestBuildFromTheCommandLine: a launch builds its image, build warms it,
// images lists it and prune removes it; a secret is in nothing of it.
func TestBuildFromTheCommandLine(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.env = append(p.env, "API_KEY=hunter2", "PINFOLD_CONTAINER_RUNTIME="+l.engine)
		t.Cleanup(func() {
			if _, err := image.Prune(context.Background(), p.e); err != nil {
				t.Error(err)
			}
		})
		build := map[string]any{
			"env":       map[string]any{"secrets": []string{"API_KEY"}},
			"container": map[string]any{"runtime": l.engine, "build": map[string]any{"base": base, "install": []string{"echo built by " + owner(t) + " >/made; env >>/made"}}},
		}
		first := p.wrap(build, `cat /made; echo "$API_KEY"`)
		if first.code != 0 || !strings.HasPrefix(first.stdout, "built by "+owner(t)) || !strings.HasSuffix(first.stdout, "\nhunter2\n") || strings.Count(first.stdout, "hunter2") != 1 {
			t.Fatal(first)
		}
		warmed := p.call("build", "--policy", p.policy(build))
		id := strings.TrimSpace(warmed.stdout)
		if warmed.code != 0 || !strings.HasPrefix(id, "sha256:") || strings.Contains(warmed.stderr, "building") {
			t.Errorf("it was built twice: %v", warmed)
		}
		var listed []struct{ Engine, ID string }
		listing := p.call("images", "--json", "--runtime", l.engine)
		if err := json.Unmarshal([]byte(listing.stdout), &listed); err != nil || len(listed) != 1 || listed[0].ID != id || listed[0].Engine != l.engine {
			t.Errorf("%v: %v", err, listing)
		}
		pruned := p.call("images", "--runtime", l.engine, "prune")
		if pruned.code != 0 || !strings.Contains(pruned.stdout, "removed "+l.engine) {
			t.Error(pruned)
		}
		if left := p.call("images", "--runtime", l.engine); left.code != 0 || left.stdout != "" {
			t.Errorf("left: %v", left)
		}
	})
}

// TestBuildShowsAndRefuses: build prints what the builder says, a failure ends
// a launch with its reason, and a home is no context.
func TestBuildShowsAndRefuses(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		with := func(build map[string]any) map[string]any {
			return map[string]any{"container": map[string]any{"runtime": l.engine, "build": build}}
		}
		bad := with(map[string]any{"base": base, "install": []string{"echo the reason of " + owner(t) + "; exit 3"}})
		if got := p.call("build", "--policy", p.policy(bad)); got.code != 1 || !strings.Contains(got.stderr, "the reason of ") || !strings.Contains(got.stderr, "build_failed") {
			t.Error(got)
		}
		if got := p.wrap(bad, "echo ran"); got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, "build_failed") {
			t.Error(got)
		}
		p.file(p.home+"/.ssh/id", "private")
		p.file(p.home+"/Dockerfile", "FROM "+base+"\nCOPY . /home\n")
		home := with(map[string]any{"dockerfile": p.home + "/Dockerfile"})
		if got := p.wrap(home, "cat /home/.ssh/id"); got.code != 125 || !strings.Contains(got.stderr, "context_forbidden") {
			t.Error(got)
		}
		p.file(p.home+"/.dockerignore", ".ssh\nw\n")
		if got := p.wrap(home, "ls -A /home/.ssh; cat /home/Dockerfile"); got.code != 0 || !strings.HasPrefix(got.stdout, "FROM ") {
			t.Error(got)
		}
		if _, err := image.Prune(t.Context(), p.e); err != nil {
			t.Error(err)
		}
	})
}

// TestDoctor: it says yes where a container runs, by running one, and leaves
// nothing.
func TestDoctor(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.env = append(p.env, "PINFOLD_CONTAINER_RUNTIME="+l.engine)
		got := p.call("doctor", "--tier", "container")
		if got.code != 0 || !regexp.MustCompile(`(?m)^ok +container tier +true ran$`).MatchString(got.stdout) {
			t.Error(got)
		}
		if _, err := p.e.Resolve(t.Context(), "localhost/pinfold/trial:1"); err == nil {
			t.Error("its image is left behind")
		}
		entries, err := filepath.Glob(filepath.Join(p.state, "containers", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if st, err := os.Stat(e); err == nil && st.IsDir() && filepath.Base(e) != "stub" {
				t.Errorf("left behind: %s", e)
			}
		}
	})
}
