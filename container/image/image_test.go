package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/container/image"
	"pinfold/policy"
)

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

func lower(t *testing.T, b *policy.Build, dockerfile string, forbidden ...string) image.Source {
	t.Helper()
	s, err := image.Lower(b, dockerfile, forbidden)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func digest(t *testing.T, s image.Source) string {
	t.Helper()
	d, err := s.Digest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLower: the three forms, and steps that say nothing to the builder.
func TestLower(t *testing.T) {
	t.Parallel()
	s := lower(t, &policy.Build{Base: "node:22", Install: []string{"npm i -g x", "echo \"$A\" \\\nFROM other"}}, "")
	want := "FROM node:22\nRUN [\"/bin/sh\",\"-c\",\"npm i -g x\"]\nRUN [\"/bin/sh\",\"-c\",\"echo \\\"$A\\\" \\\\\\nFROM other\"]\n"
	if diff := cmp.Diff(want, string(s.Dockerfile)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bases, err := image.Bases(s.Dockerfile)
	if err != nil || !slices.Equal(bases, []string{"node:22"}) {
		t.Errorf("it starts from %v, %v", bases, err)
	}
	if got := lower(t, &policy.Build{DockerfileInline: "FROM a\n"}, ""); string(got.Dockerfile) != "FROM a\n" || got.Context != "" {
		t.Errorf("inline: %+v", got)
	}
	dir := t.TempDir()
	write(t, dir, "D", "FROM b\n")
	if got := lower(t, &policy.Build{Dockerfile: &policy.PathRule{}}, dir+"/D"); string(got.Dockerfile) != "FROM b\n" || got.Context != dir {
		t.Errorf("file: %+v", got)
	}
}

// TestBases: every image that an engine would pull.
func TestBases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"FROM a\n": {"a"},
		"from --platform=linux/amd64 a AS one\nFROM one\nFROM b:1@sha256:x as Two\nCOPY --from=two /x /y\nCOPY --from=0 /x /y\n": {"a", "b:1@sha256:x"},
		"FROM scratch\nCOPY --chown=1 --from=c /x /y\n":                        {"c"},
		"# FROM no\n\nARG V=1\nFROM \\\n  a\nRUN echo \\\n# a comment\nFROM\n": {"a"},
		"FROM scratch\n": nil,
	} {
		got, err := image.Bases([]byte(text))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q starts from %v, %v, wanted %v", text, got, err, want)
		}
	}
	for _, text := range []string{"ARG V\nFROM a:$V\n", "FROM\n", "FROM a\nCOPY --from=$X /a /b\n", "FROM ${X}\n"} {
		_, err := image.Bases([]byte(text))
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "base_unclear" {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// FuzzBases: whatever a Dockerfile says, no name with a variable passes.
func FuzzBases(f *testing.F) {
	f.Add("FROM a AS b\nCOPY --from=b /x /y\n")
	f.Add("FROM \\\n$x")
	f.Fuzz(func(t *testing.T, text string) {
		bases, err := image.Bases([]byte(text))
		if err == nil && slices.ContainsFunc(bases, func(b string) bool { return strings.Contains(b, "$") || b == "" }) {
			t.Errorf("%q: %q", text, bases)
		}
	})
}

// TestDigest: what is sent decides, and nothing else.
func TestDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM a\n")
	write(t, dir, "src/a", "1")
	write(t, dir, "logs/x", "noise")
	write(t, dir, "logs/keep", "1")
	write(t, dir, ".dockerignore", "logs\n!logs/keep\n")
	if err := os.Symlink("src/a", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	b := &policy.Build{Dockerfile: &policy.PathRule{}}
	of := func() string { return digest(t, lower(t, b, dir+"/Dockerfile")) }
	first := of()
	same := func(what string) {
		t.Helper()
		if got := of(); got != first {
			t.Errorf("%s made another image", what)
		}
	}
	differs := func(what string) {
		t.Helper()
		if got := of(); got == first {
			t.Errorf("%s made no other image", what)
		}
		first = of()
	}
	if err := os.Chtimes(dir+"/src/a", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	same("a time stamp")
	write(t, dir, "logs/x", "more noise")
	same("a file that is left out")
	write(t, dir, "src/a", "2")
	differs("a changed file")
	write(t, dir, "logs/keep", "2")
	differs("a file that an exception brings back")
	if err := os.Chmod(dir+"/src/a", 0o755); err != nil {
		t.Fatal(err)
	}
	differs("a mode")
	if err := errors.Join(os.Remove(dir+"/link"), os.Symlink("src", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	differs("a link's target")
	write(t, dir, "Dockerfile", "FROM b\n")
	differs("the Dockerfile")
	if err := os.Rename(dir+"/src/a", dir+"/src/b"); err != nil {
		t.Fatal(err)
	}
	differs("a name")
}

// TestForbidden: a denied path is never sent, however it is reached.
func TestForbidden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM a\n")
	write(t, dir, ".ssh/id", "private")
	for _, forbidden := range []string{dir + "/.ssh", dir + "/.ssh/id", dir} {
		_, err := lower(t, &policy.Build{Dockerfile: &policy.PathRule{}}, dir+"/Dockerfile", forbidden).Digest(t.Context())
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "context_forbidden" {
			t.Errorf("%s: got %v", forbidden, err)
		}
	}
	write(t, dir, ".dockerignore", ".ssh\n")
	if _, err := lower(t, &policy.Build{Dockerfile: &policy.PathRule{}}, dir+"/Dockerfile", dir+"/.ssh").Digest(t.Context()); err != nil {
		t.Errorf("left out by .dockerignore: %v", err)
	}
	if _, err := lower(t, &policy.Build{Dockerfile: &policy.PathRule{}}, dir+"/Dockerfile", dir+"/.s").Digest(t.Context()); err != nil {
		t.Errorf("another name: %v", err)
	}
}

// TestTrial: the image holds one program, and it runs here.
func TestTrial(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		p, err := image.Trial(arch)
		if err != nil {
			t.Fatal(err)
		}
		one, id, err := p.Tar()
		if err != nil {
			t.Fatal(err)
		}
		two, again, err := p.Tar()
		if err != nil || id != again || string(one) != string(two) {
			t.Errorf("%s: two archives of one image differ: %v", arch, err)
		}
		if arch == runtime.GOARCH && runtime.GOOS == "linux" {
			name := filepath.Join(t.TempDir(), "true")
			if err := os.WriteFile(name, p.Files["bin/true"].Content, 0o755); err != nil {
				t.Fatal(err)
			}
			runs(t, name)
		}
	}
	if _, err := image.Trial("m68k"); err == nil {
		t.Error("there is a program for a machine that nobody wrote one for")
	}
}

// TestLeavesOut: only what no exception can bring back is left out for sure.
func TestLeavesOut(t *testing.T) {
	t.Parallel()
	for ignored, want := range map[string]bool{"": false, "src\n": true, "s*\n": true, "*\n": true, "src/a\n": false, "src\n!src/b\n": false, "*\n!Dockerfile\n": false} {
		dir := t.TempDir()
		write(t, dir, "Dockerfile", "FROM a\n")
		write(t, dir, ".dockerignore", ignored)
		if got, err := image.LeavesOut(dir+"/Dockerfile", "src"); err != nil || got != want {
			t.Errorf("%q leaves it out: %t, %v", ignored, got, err)
		}
	}
}

// TestTrustedContent: where a policy was trusted with what it builds from,
// nothing else is looked for or built.
func TestTrustedContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM a\n")
	b := &policy.Build{Dockerfile: &policy.PathRule{}}
	b.Trusted = digest(t, lower(t, b, dir+"/Dockerfile"))
	write(t, dir, "planted", "x")
	_, err := image.Ensure(t.Context(), nil, lower(t, b, dir+"/Dockerfile"), image.Options{})
	if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "policy_changed" {
		t.Errorf("got %v", err)
	}
}
