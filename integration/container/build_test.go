//go:build linux

package container_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold/container/image"
	"pinfold/policy"
)

// TestBuildFromTheCommandLine: a launch builds its image, build warms it,
// images lists it and prune removes it; a secret is in nothing of it.
func TestBuildFromTheCommandLine(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.env = append(p.env, "API_KEY=hunter2", "PINFOLD_CONTAINER_RUNTIME="+l.engine)
		p.removeBuilt()
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
		type listed struct{ Engine, ID string }
		var list []listed
		listing := p.call("images", "--json", "--runtime", l.engine)
		if err := json.Unmarshal([]byte(listing.stdout), &list); err != nil || count(list, listed{l.engine, id}) != 1 {
			t.Errorf("%s isn't listed once: %v: %v", id, err, listing)
		}
		// A line has as much of an ID as people need.
		short := regexp.MustCompile(`(?m)^(removed )?` + l.engine + ` .* ` + id[:19] + ` `)
		if shown := p.call("images", "--runtime", l.engine); shown.code != 0 || !short.MatchString(shown.stdout) {
			t.Errorf("no %s in %v", id, shown)
		}
		pruned := p.call("images", "--runtime", l.engine, "prune")
		if got := short.FindStringSubmatch(pruned.stdout); pruned.code != 0 || got == nil || got[1] == "" {
			t.Errorf("%s wasn't removed: %v", id, pruned)
		}
		if left := p.call("images", "--runtime", l.engine); left.code != 0 || short.MatchString(left.stdout) {
			t.Errorf("left: %v", left)
		}
		_, err := p.e.Resolve(t.Context(), id)
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "image_missing" {
			t.Errorf("the image is still there: %v", err)
		}
	})
}

func count[T comparable](list []T, one T) (n int) {
	for _, x := range list {
		if x == one {
			n++
		}
	}
	return n
}

// removeBuilt has what pinfold builds go with the test. What an earlier run
// left goes as well, if no container is made from it.
func (p *pen) removeBuilt() {
	p.t.Cleanup(func() {
		if _, err := image.Prune(context.Background(), p.e); err != nil {
			p.t.Error(err)
		}
	})
}

// TestBuildShowsAndRefuses: build prints what the builder says, a failure ends
// a launch with its reason, and a home is no context.
func TestBuildShowsAndRefuses(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.removeBuilt()
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
		if got := p.wrap(home, "echo ran"); got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, "context_writable") {
			t.Error(got)
		}
		p.file(p.home+"/.dockerignore", "w\n")
		if got := p.wrap(home, "cat /home/.ssh/id"); got.code != 125 || !strings.Contains(got.stderr, "context_forbidden") {
			t.Error(got)
		}
		p.file(p.home+"/.dockerignore", ".ssh\nw\n")
		if got := p.wrap(home, "ls -A /home/.ssh; cat /home/Dockerfile"); got.code != 0 || !strings.HasPrefix(got.stdout, "FROM ") {
			t.Error(got)
		}
	})
}

// TestBuildKeeps: what a policy's image is built from can't be written from
// inside, and what was trusted is all that is built.
func TestBuildKeeps(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.removeBuilt()
		ci := p.workspace + "/ci"
		p.file(ci+"/Dockerfile", "FROM "+base+"\nCOPY said /said\n")
		p.file(ci+"/said", "first of "+owner(t)+"\n")
		with := map[string]any{"tier": "container", "container": map[string]any{"runtime": l.engine, "build": map[string]any{"dockerfile": "./ci/Dockerfile"}}}
		text, err := os.ReadFile(p.policy(with))
		if err != nil {
			t.Fatal(err)
		}
		p.file(p.workspace+"/.pinfold.json", string(text))
		if got := p.call("trust", p.workspace+"/.pinfold.json"); got.code != 0 {
			t.Fatal(got)
		}
		run := func(script string) answer {
			return p.call("wrap", "--workspace", p.workspace, "--", "/bin/sh", "-c", script)
		}
		got := run(`cat /said; cd ` + ci + `; echo RUN x >>Dockerfile; echo evil >said; echo evil >new; mv ../ci ../ci2; ls`)
		if got.code != 0 || got.stdout != "first of "+owner(t)+"\nDockerfile\nsaid\n" {
			t.Error(got)
		}
		p.file(ci+"/said", "second of "+owner(t)+"\n")
		if got := run("cat /said"); got.code != 125 || !strings.Contains(got.stderr, "policy_changed") {
			t.Error(got)
		}
		if got := p.call("trust", p.workspace+"/.pinfold.json"); got.code != 0 {
			t.Fatal(got)
		}
		if got := run("cat /said"); got.code != 0 || got.stdout != "second of "+owner(t)+"\n" {
			t.Error(got)
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
		for _, row := range []string{"engine +" + l.engine + " .*, named by .*_HOST", "shared paths +a directory", "hand-over +network none", "container tier +true ran$"} {
			if got.code != 0 || !regexp.MustCompile(`(?m)^ok +`+row).MatchString(got.stdout) {
				t.Errorf("no row %q: %v", row, got)
			}
		}
		// The row on limits says what a launch with them makes of it.
		limits := map[string]any{"limits": map[string]any{"memory": "64m", "cpus": 0.5, "pids": 64}}
		status := map[int]string{0: "ok", 125: "warn"}[p.wrap(limits, "true").code]
		if status == "" || !regexp.MustCompile(`(?m)^`+status+` +container limits `).MatchString(got.stdout) {
			t.Errorf("a launch with limits is %q, and doctor says %v", status, got)
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
