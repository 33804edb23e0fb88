package engine_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/container/engine"
)

// listenAt makes a socket that somebody listens on.
func listenAt(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // net's own is one
	t.Cleanup(func() { l.Close() })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestListeningByInode: a socket is found where it stands, whatever it was
// called when somebody bound it.
func TestListeningByInode(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(p string) string { return filepath.Join(base, p) }
	for _, d := range []string{"g/a/b", "g/denied/in", "out"} {
		must(t, os.MkdirAll(at(d), 0o755))
	}
	listenAt(t, at("g/plain"))
	listenAt(t, at("out/r"))
	must(t, os.Rename(at("out/r"), at("g/a/renamed")))
	listenAt(t, at("out/l"))
	must(t, os.Link(at("out/l"), at("g/a/b/linked")))
	listenAt(t, at("out/d"))
	must(t, os.Rename(at("out/d"), at("g/denied/hidden")))
	listenAt(t, at("out/i"))
	must(t, os.Rename(at("out/i"), at("g/denied/in/shown")))
	listenAt(t, at("out/f"))
	must(t, os.Rename(at("out/f"), at("file")))
	listenAt(t, at("out/gone"))
	must(t, os.Remove(at("out/gone")))
	t.Chdir(at("g"))
	listenAt(t, "relative")
	stale, err := net.Listen("unix", at("g/stale"))
	must(t, err)
	stale.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // net's own is one
	must(t, stale.Close())

	r := &container.Reach{Places: []container.Place{
		{Path: at("file"), Shown: true}, {Path: at("g"), Shown: true}, {Path: at("g/denied")}, {Path: at("g/denied/in"), Shown: true},
	}}
	for search, want := range map[bool][]string{
		true:  {"file", "g/a/b/linked", "g/a/renamed", "g/denied/in/shown", "g/plain", "g/relative", "out/l"},
		false: {"g/plain", "out/l"},
	} {
		list, err := engine.Listening(t.Context(), r, search)
		must(t, err)
		var got []string
		for _, p := range list {
			if rel, err := filepath.Rel(base, p); err == nil && filepath.IsLocal(rel) {
				got = append(got, rel)
			}
		}
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), want) {
			t.Errorf("search %v: %q, wanted %q", search, got, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := engine.Listening(over, r, true); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was ended: %v", err)
	}
}

// TestListeningByMount: a socket shows wherever its directory is mounted.
func TestListeningByMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, d := range []string{"g/alias", "out/d"} {
		must(t, os.MkdirAll(filepath.Join(base, d), 0o755))
	}
	listenAt(t, filepath.Join(base, "out/d/s"))
	list, err := onSpareThread(func() ([]string, error) {
		if err := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
			return nil, err
		}
		if err := unix.Mount(filepath.Join(base, "out"), filepath.Join(base, "g/alias"), "", unix.MS_BIND, ""); err != nil {
			return nil, err
		}
		list, err := engine.Listening(t.Context(), &container.Reach{Places: []container.Place{{Path: filepath.Join(base, "g"), Shown: true}}}, false)
		return list, errors.Join(err, unix.Unmount(filepath.Join(base, "g/alias"), unix.MNT_DETACH))
	})
	must(t, err)
	if want := filepath.Join(base, "g/alias/d/s"); !slices.Contains(list, want) {
		t.Errorf("%q isn't among %q", want, list)
	}
}

// onSpareThread runs what changes its thread on one that ends with it. The
// first thread can't end, and what it sees is what /proc/self shows to all.
func onSpareThread(do func() ([]string, error)) (list []string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			list, err = onSpareThread(do)
			return
		}
		list, err = do()
	}()
	<-done
	return list, err
}
