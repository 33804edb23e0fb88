package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestOnDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names      []string
		name, same string
		want       string
	}{
		{[]string{"a", "B"}, "a", "a", "a"},
		{[]string{"a", "Secret"}, "sEcret", "Secret", "Secret"},
		{[]string{"secret", "Secret"}, "secret", "secret", "secret"},
		{[]string{"SECRET", "Secret"}, "secret", "Secret", "Secret"},
		{[]string{"straße", "x"}, "STRASSE", "straße", "straße"},
		{nil, "gone", "", "gone"},
	} {
		if got := onDisk(c.names, c.name, func(n string) bool { return n == c.same }); got != c.want {
			t.Errorf("onDisk(%q, %q) = %q, want %q", c.names, c.name, got, c.want)
		}
	}
}

// A directory swapped for a link between two lookups must never be mixed into
// one answer: what is found is one of the two, whole.
func TestLookupWhileNamesAreSwapped(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, d := range []string{"good/in", "bad/in"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(root, "good"), filepath.Join(root, "ws")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bad", filepath.Join(root, "l")); err != nil {
		t.Fatal(err)
	}
	ids := map[string]FileID{}
	for _, p := range []string{"ws/in", "bad/in"} {
		o, err := (&hostFS{}).lookup(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		o.release()
		ids[o.path] = o.id
	}
	var swapping sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	swapping.Go(func() {
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "ws"), unix.AT_FDCWD, filepath.Join(root, "l"), unix.RENAME_EXCHANGE)
		}
	})
	defer swapping.Wait()
	defer stop()
	for range 3000 {
		o, err := (&hostFS{}).lookup(filepath.Join(root, "ws/in"))
		if err != nil {
			t.Fatal(err)
		}
		o.release()
		if o.missing() || ids[o.path] != o.id || (len(o.links) > 0) != (filepath.Dir(o.path) == filepath.Join(root, "bad")) {
			t.Fatalf("lookup = %+v", o)
		}
	}
}

func TestHoldRefusesAnotherObject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := &hostFS{}
	o, err := h.lookup(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.release()
	if _, err := h.hold(o.path, FileID{Dev: o.id.Dev, Ino: o.id.Ino + 1}); err == nil {
		t.Error("another object is held")
	}
	f := filepath.Join(dir, "l")
	if err := os.Symlink(dir, f); err != nil {
		t.Fatal(err)
	}
	if _, err := h.hold(f, o.id); err == nil {
		t.Error("an object is held through a link")
	}
	if _, err := h.hold(join(f, "x"), o.id); !errors.Is(err, unix.ELOOP) {
		t.Errorf("hold beneath a link: %v, want ELOOP", err)
	}
}

// Every descriptor that a launch opens is closed with its Grant.
func TestNoDescriptorIsLeaked(t *testing.T) {
	before := descriptors(t)
	h := newHostFS()
	for _, p := range []string{"/usr/bin/env", "/etc/passwd/x", "/nowhere/at/all", "/proc/self/root/etc", "/dev/null"} {
		if o, err := h.lookup(p); err == nil {
			o.release()
		}
	}
	h.close()
	dir := t.TempDir()
	for i := range 200 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i%7), fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o, err := (&hostFS{}).lookup(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.release()
	ctx, cancel := context.WithCancel(t.Context())
	for _, limit := range []int{1000, 50, 1} {
		_, err := (&hostFS{}).walk(ctx, walkRequest{roots: []walkRoot{{path: o.path, id: o.id}}, limit: limit})
		if (err != nil) != (limit < 200) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	cancel()
	if _, err := (&hostFS{}).walk(ctx, walkRequest{roots: []walkRoot{{path: o.path, id: o.id}}, limit: 1000}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled walk: %v", err)
	}
	if diff := cmp.Diff(before, descriptors(t)); diff != "" {
		t.Errorf("descriptors (-before +after):\n%s", diff)
	}
}

// descriptors lists what is open of the file system: the runtime's own
// (epoll, pidfds) aside.
func descriptors(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/proc/") {
			out = append(out, target)
		}
	}
	return out
}

func FuzzLookup(f *testing.F) {
	for _, p := range []string{
		"/", "//", "/..", "/./usr//bin/", "/etc/../etc/passwd", "/proc/self/root/etc", "/proc/self/fd/0", "/a/../b",
		"/etc/passwd/..", "/etc/passwd/.", "/" + strings.Repeat("a", 300), "/" + strings.Repeat("a/", 2000), "/\xff",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
			return
		}
		o, err := (&hostFS{}).lookup(p)
		if err != nil {
			return
		}
		defer o.release()
		if !isClean(o.path) || !isClean(o.exists) || !within(o.path, o.exists) {
			t.Fatalf("lookup(%q) = %q, exists %q", p, o.path, o.exists)
		}
		var want, got unix.Stat_t
		if unix.Stat(p, &want) != nil || o.missing() {
			return
		}
		if err := unix.Lstat(o.path, &got); err != nil || idOf(&want) != o.id || idOf(&got) != o.id {
			t.Fatalf("lookup(%q) = %q, %+v; the kernel says %+v", p, o.path, o.id, idOf(&want))
		}
	})
}

// What wasn't there once isn't there for the rest of the launch, so that two
// rules never see two states of one name.
func TestLookupKeepsWhatIsAbsent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHostFS()
	defer h.close()
	seen := func(fs fsys) bool {
		o, err := fs.lookup(filepath.Join(dir, "a/b"))
		if err != nil {
			t.Fatal(err)
		}
		defer o.release()
		return !o.missing()
	}
	if seen(h) {
		t.Fatal("it is there")
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if seen(h) || !seen(newHostFS()) {
		t.Errorf("seen by the launch: %v, by the next one: %v", seen(h), seen(newHostFS()))
	}
}
