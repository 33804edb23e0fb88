//go:build linux

package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/image"
	"pinfold/policy"
)

// builder counts the builds of an engine.
type builder struct {
	*testing.T
	*engine.Engine
	state  string
	builds int
	mu     sync.Mutex
}

func newBuilder(t *testing.T, l *lab) *builder {
	t.Helper()
	b := &builder{T: t, Engine: l.connect(t), state: t.TempDir()}
	l.load(t, b.Engine, shellImage(t))
	return b
}

// ensure builds one of container.build's forms, and has the image go again
// with the test.
func (b *builder) ensure(build *policy.Build, dockerfile string, forbidden ...string) (container.Image, error) {
	b.Helper()
	s, err := image.Lower(build, dockerfile, forbidden)
	if err != nil {
		return container.Image{}, err
	}
	var said bytes.Buffer
	img, err := image.Ensure(b.T.Context(), b.Engine, s, image.Options{State: b.state, Progress: &said, Began: func(string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.builds++
	}})
	if err == nil {
		b.Cleanup(func() {
			if err := b.RemoveImage(context.Background(), img.ID); err != nil {
				b.Error(err)
			}
		})
	}
	return img, err
}

func (b *builder) must(build *policy.Build, dockerfile string) container.Image {
	b.Helper()
	img, err := b.ensure(build, dockerfile)
	if err != nil {
		b.Fatal(err)
	}
	return img
}

// base is a local image by name, on every engine.
const base = "localhost/pinfold-test/shell:1"

// TestBuild: an image is built once, again when anything of it changes, and
// all three forms build.
func TestBuild(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBuilder(t, l)
		unique := fmt.Sprintf("echo %s > /made", owner(t))
		steps := &policy.Build{Base: base, Install: []string{unique, "echo 'two words' \"$HOME\" > /second"}}
		first := b.must(steps, "")
		if again := b.must(steps, ""); again.ID != first.ID || b.builds != 1 {
			t.Errorf("built %d times, %s then %s", b.builds, first.ID, again.ID)
		}
		other := b.must(&policy.Build{Base: base, Install: []string{unique}}, "")
		if other.ID == first.ID {
			t.Error("another list of steps is the same image")
		}
		b.must(&policy.Build{DockerfileInline: "FROM " + base + " AS one\nRUN " + unique + "\nFROM " + base + "\nCOPY --from=one /made /copied\n"}, "")

		dir := t.TempDir()
		write(t, dir, "Containerfile", "FROM "+base+"\nCOPY src /src\n")
		write(t, dir, "src/a", "1"+owner(t))
		write(t, dir, "notes", "x")
		write(t, dir, ".dockerignore", "notes\n")
		file := &policy.Build{Dockerfile: &policy.PathRule{Text: "Containerfile"}}
		before := b.must(file, filepath.Join(dir, "Containerfile"))
		write(t, dir, "notes", "y")
		if same := b.must(file, filepath.Join(dir, "Containerfile")); same.ID != before.ID {
			t.Error("a file that .dockerignore names made another image")
		}
		write(t, dir, "src/a", "2"+owner(t))
		if after := b.must(file, filepath.Join(dir, "Containerfile")); after.ID == before.ID {
			t.Error("a changed source of a COPY made no other image")
		}
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBuildOnce: of many first launches one builds.
func TestBuildOnce(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBuilder(t, l)
		build := &policy.Build{Base: base, Install: []string{"echo once " + owner(t) + " > /made"}}
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				img, err := b.ensure(build, "")
				if err != nil {
					t.Error(err)
				}
				ids[i] = img.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] || b.builds != 1 {
				t.Fatalf("built %d times: %v", b.builds, ids)
			}
		}
	})
}

// TestBuildRefused: what may not be built, or can't be, is no image.
func TestBuildRefused(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBuilder(t, l)
		dir := t.TempDir()
		write(t, dir, "Dockerfile", "FROM "+base+"\nCOPY . /all\n")
		write(t, dir, ".ssh/id", "private")
		file := &policy.Build{Dockerfile: &policy.PathRule{Text: "Dockerfile"}}
		for name, c := range map[string]struct {
			build *policy.Build
			code  string
		}{
			"a base that isn't there":    {&policy.Build{Base: "pinfold.invalid/none:1", Install: []string{"true"}}, "image_missing"},
			"a base by a variable":       {&policy.Build{DockerfileInline: "ARG B=x\nFROM $B\n"}, "base_unclear"},
			"a copy from what isn't":     {&policy.Build{DockerfileInline: "FROM " + base + "\nCOPY --from=pinfold.invalid/none:1 /a /b\n"}, "image_missing"},
			"a failing step":             {&policy.Build{Base: base, Install: []string{"echo the reason; false"}}, "build_failed"},
			"a denied path in a context": {file, "context_forbidden"},
			"no Dockerfile at all":       {&policy.Build{Dockerfile: &policy.PathRule{Text: "none"}}, "dockerfile_unreadable"},
		} {
			t.Run(name, func(t *testing.T) {
				dockerfile := filepath.Join(dir, "Dockerfile")
				if c.code == "dockerfile_unreadable" {
					dockerfile += ".none"
				}
				_, err := b.ensure(c.build, dockerfile, filepath.Join(dir, ".ssh"))
				r, ok := errors.AsType[*policy.Refusal](err)
				if !ok || r.Code != c.code {
					t.Fatalf("got %v, wanted %s", err, c.code)
				}
				if c.code == "build_failed" && !strings.Contains(r.Why, "the reason") {
					t.Errorf("it doesn't say why: %v", r.Why)
				}
			})
		}
	})
}

// TestPrune: what was built goes, unless a container was made from it, and
// nothing else does.
func TestPrune(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBuilder(t, l)
		idle := b.must(&policy.Build{Base: base, Install: []string{"echo idle " + owner(t) + " > /made"}}, "")
		used := b.must(&policy.Build{Base: base, Install: []string{"echo used " + owner(t) + " > /made"}}, "")
		s := l.shell(t, b.Engine, "exit 0")
		shell := s.Image
		s.Image = used.ID
		made, err := b.Create(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // or the image would stay
			if err := b.Remove(context.Background(), made); err != nil {
				t.Error(err)
			}
		})
		removed, err := image.Prune(t.Context(), b.Engine)
		if err != nil {
			t.Fatal(err)
		}
		if !has(removed, idle.ID) || has(removed, used.ID) {
			t.Errorf("it removed %v", removed)
		}
		if _, err := b.Resolve(t.Context(), shell); err != nil {
			t.Error(err)
		}
		left, err := image.List(t.Context(), b.Engine)
		if err != nil || !has(left, used.ID) || has(left, idle.ID) {
			t.Errorf("left are %v: %v", left, err)
		}
	})
}

func has(images []container.Image, id string) bool {
	for _, i := range images {
		if i.ID == id {
			return true
		}
	}
	return false
}
