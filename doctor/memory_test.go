package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"pinfold/doctor"
)

// kernel is a machine that counts what is asked of it; what it doesn't have it
// answers as a kernel does, and not as a profile.
type kernel struct {
	probe
	asked *[]string
}

func (k kernel) Syscall(name string) error {
	*k.asked = append(*k.asked, name)
	if k.missing[name] {
		return fmt.Errorf("%w: %w", doctor.ErrNotThere, syscall.ENOSYS)
	}
	return k.broken[name]
}

func (k kernel) LandlockABI() (int, error) {
	*k.asked = append(*k.asked, "landlock")
	return k.probe.LandlockABI()
}

const (
	bootFile   = "proc/sys/kernel/random/boot_id"
	statusFile = "proc/self/status"
	answers    = "kernel-answers"
)

// forgetful is a machine without filter and tracer, whose state is a directory
// of the test's own. Without these calls nothing but the row on them fails.
func forgetful(t *testing.T, missing ...string) (*doctor.Host, kernel) {
	t.Helper()
	root := fixture(t, "debian12")
	root[bootFile] = &fstest.MapFile{Data: []byte("0e3b5e26-4a59-4b02-a5e6-6d5b1c3c3f10\n")}
	root[statusFile] = &fstest.MapFile{Data: []byte("Name:\tpinfold\nTracerPid:\t0\nSeccomp:\t0\n")}
	root["proc/self/ns/user"] = &fstest.MapFile{Data: []byte("user:[1]"), Mode: fs.ModeSymlink}
	root["proc/self/ns/mnt"] = &fstest.MapFile{Data: []byte("mnt:[2]"), Mode: fs.ModeSymlink}
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	k := kernel{good(), &[]string{}}
	k.missing = map[string]bool{}
	for _, name := range missing {
		k.missing[name] = true
	}
	return &doctor.Host{Root: root, UID: os.Geteuid(), Arch: "amd64", Probe: k, State: state, Version: "1.0"}, k
}

// upgraded is the same machine with a kernel that has everything.
func upgraded(h *doctor.Host) kernel {
	k := kernel{good(), &[]string{}}
	h.Probe = k
	return k
}

func mapFile(h *doctor.Host, name, text string) {
	h.Root.(fstest.MapFS)[name].Data = []byte(text)
}

func remember(t *testing.T, h *doctor.Host) string {
	t.Helper()
	doctor.Run(t.Context(), h, doctor.Checks())
	text, err := os.ReadFile(filepath.Join(h.State, answers))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRemembered: what doctor was told words the refusals of this boot, and
// nothing is asked twice.
func TestRemembered(t *testing.T) {
	t.Parallel()
	h, k := forgetful(t, "openat2", "close_range")
	want := fmt.Sprintf("pinfold \"1.0\" boot \"0e3b5e26-4a59-4b02-a5e6-6d5b1c3c3f10\" uid %d \"user:[1]\" \"mnt:[2]\"\n", os.Geteuid()) +
		"close_range 0\nlandlock 6\nopenat2 0\npidfd_getfd 1\npidfd_open 1\nseccomp_errno 1\nseccomp_kill_process 1\nseccomp_user_notif 1\n"
	if diff := cmp.Diff(want, remember(t, h)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(h.State, answers)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	*k.asked = nil
	r, found := doctor.Explain(t.Context(), h)
	if !found || r.Code != "syscall_missing" || !strings.Contains(r.Seen, "openat2") || r.Fix == "" || len(*k.asked) > 0 {
		t.Errorf("got %+v, asked %q", r, *k.asked)
	}
	if h.Probe.(kernel).asked != k.asked {
		t.Error("the prober isn't the caller's own any more")
	}
	*k.asked = nil
	remember(t, h)
	for _, name := range []string{"openat2", "close_range", "seccomp_errno", "landlock"} {
		if !slices.Contains(*k.asked, name) {
			t.Errorf("doctor took %s from memory", name)
		}
	}
	upgraded(h)
	remember(t, h)
	if r, found := doctor.Explain(t.Context(), h); found {
		t.Errorf("doctor has asked since, got %+v", r)
	}
}

// TestRememberedByExplain: the first refusal that comes as far asks, the next doesn't.
func TestRememberedByExplain(t *testing.T) {
	t.Parallel()
	h, k := forgetful(t)
	for _, want := range []bool{true, false} {
		*k.asked = nil
		if r, found := doctor.Explain(t.Context(), h); found || len(*k.asked) > 0 != want {
			t.Errorf("got %+v, asked %q", r, *k.asked)
		}
	}
}

// TestNotRecalled: on any other occasion, and from a file or directory that is
// odd, nothing is believed, and the row that was put right isn't named.
func TestNotRecalled(t *testing.T) {
	t.Parallel()
	text := func(change func(string) string) func(*testing.T, *doctor.Host, string) {
		return func(t *testing.T, _ *doctor.Host, file string) {
			t.Helper()
			old, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, []byte(change(string(old))), 0o600)
			}
			must(t, err)
		}
	}
	machine := func(name, text string) func(*testing.T, *doctor.Host, string) {
		return func(_ *testing.T, h *doctor.Host, _ string) { mapFile(h, name, text) }
	}
	instead := func(put func(file string) error) func(*testing.T, *doctor.Host, string) {
		return func(t *testing.T, _ *doctor.Host, file string) {
			t.Helper()
			must(t, errors.Join(os.Rename(file, file+".old"), put(file)))
		}
	}
	for name, change := range map[string]func(*testing.T, *doctor.Host, string){
		"another boot":           machine(bootFile, "5d7ad0d6-0a55-4b0b-b5f5-0cf6f8c4d3e2\n"),
		"no boot":                machine(bootFile, ""),
		"a filter":               machine(statusFile, "Name:\tpinfold\nTracerPid:\t0\nSeccomp:\t2\n"),
		"a tracer":               machine(statusFile, "Name:\tpinfold\nTracerPid:\t7\nSeccomp:\t0\n"),
		"no status":              machine(statusFile, ""),
		"another user namespace": machine("proc/self/ns/user", "user:[3]"),
		"other mounts":           machine("proc/self/ns/mnt", "mnt:[3]"),
		"no namespaces":          func(_ *testing.T, h *doctor.Host, _ string) { delete(h.Root.(fstest.MapFS), "proc/self/ns/mnt") },
		"another version":        func(_ *testing.T, h *doctor.Host, _ string) { h.Version = "1.1" },
		"another user":           func(_ *testing.T, h *doctor.Host, _ string) { h.UID++ },
		"another user's file": func(t *testing.T, _ *doctor.Host, file string) {
			t.Helper()
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			must(t, os.Chown(file, 65534, 65534))
		},
		"no state":       func(_ *testing.T, h *doctor.Host, _ string) { h.State += "/none" },
		"a shared state": func(t *testing.T, h *doctor.Host, _ string) { t.Helper(); must(t, os.Chmod(h.State, 0o770)) },
		"another user's state": func(t *testing.T, h *doctor.Host, _ string) {
			t.Helper()
			if os.Geteuid() != 0 {
				t.Skip("only root can give directories away")
			}
			must(t, os.Chown(h.State, 65534, 65534))
		},
		"a readable file": func(t *testing.T, _ *doctor.Host, file string) { t.Helper(); must(t, os.Chmod(file, 0o644)) },
		"a setuid file": func(t *testing.T, _ *doctor.Host, file string) {
			t.Helper()
			must(t, os.Chmod(file, 0o600|fs.ModeSetuid))
		},
		"nothing":             instead(func(string) error { return nil }),
		"a directory":         instead(func(file string) error { return os.Mkdir(file, 0o600) }),
		"a FIFO":              instead(func(file string) error { return syscall.Mkfifo(file, 0o600) }),
		"a link to elsewhere": instead(func(file string) error { return os.Symlink("/dev/null", file) }),
		"too large":           text(func(s string) string { return s + strings.Repeat("\n", 4096) }),
		"much too large":      func(t *testing.T, _ *doctor.Host, file string) { t.Helper(); must(t, os.Truncate(file, 1<<40)) },
		"empty":               text(func(string) string { return "" }),
		"not whole":           text(func(s string) string { return s[:len(s)-1] }),
		"no occasion":         text(func(s string) string { _, s, _ = strings.Cut(s, "\n"); return s }),
		"an answer more":      text(func(s string) string { return s + "unshare 1\n" }),
		"an answer twice":     text(func(s string) string { return s + "seccomp_user_notif 1\n" }),
		"in another order": text(func(s string) string {
			return strings.Replace(s, "openat2 0\npidfd_getfd 1\n", "pidfd_getfd 1\nopenat2 0\n", 1)
		}),
		"neither yes nor no":    text(func(s string) string { return strings.Replace(s, "pidfd_open 1", "pidfd_open 2", 1) }),
		"a negative number":     text(func(s string) string { return strings.Replace(s, "landlock 6", "landlock -6", 1) }),
		"no such Landlock":      text(func(s string) string { return strings.Replace(s, "landlock 6", "landlock 600", 1) }),
		"a word":                text(func(s string) string { return strings.Replace(s, "openat2 0", "openat2 no", 1) }),
		"a carriage return":     text(func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }),
		"a user's own addition": text(func(s string) string { return "# " + s }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := forgetful(t, "openat2")
			remember(t, h)
			change(t, h, filepath.Join(h.State, answers))
			k := upgraded(h)
			if r, found := doctor.Explain(t.Context(), h); found || !slices.Contains(*k.asked, "openat2") {
				t.Errorf("got %+v, asked %q", r, *k.asked)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPutRight: what can be put right within a boot is never remembered, by
// doctor or by a refusal before.
func TestPutRight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong func(*doctor.Host, *kernel)
		code  string
	}{
		"bubblewrap": {func(_ *doctor.Host, k *kernel) { k.bwrapErr = unavailable("bwrap_missing", "no", "install") }, "bwrap_missing"},
		"too old":    {func(_ *doctor.Host, k *kernel) { k.bwrap.Version = [3]int{0, 7, 0} }, "bwrap_too_old"},
		"a sysctl": {func(h *doctor.Host, k *kernel) {
			file("proc/sys/user/max_user_namespaces", "0")(h, nil)
			k.missing["user"] = true
		}, "userns_limit_zero"},
		"a namespace":        {func(_ *doctor.Host, k *kernel) { k.missing["net"] = true }, "namespace_refused"},
		"/proc":              {func(_ *doctor.Host, k *kernel) { k.missing["proc"] = true }, "proc_refused"},
		"a Landlock profile": {func(_ *doctor.Host, k *kernel) { k.broken = map[string]error{"landlock": doctor.ErrNotThere} }, "landlock_refused"},
		"a profile": {func(_ *doctor.Host, k *kernel) {
			k.broken = map[string]error{"openat2": fmt.Errorf("%w: %w", doctor.ErrNotThere, syscall.EPERM)}
		}, "syscall_missing"},
		"a filter": {func(h *doctor.Host, k *kernel) {
			mapFile(h, statusFile, "Name:\tpinfold\nTracerPid:\t0\nSeccomp:\t2\n")
			k.missing["openat2"] = true
		}, "syscall_missing"},
		"a tracer": {func(h *doctor.Host, k *kernel) {
			mapFile(h, statusFile, "Name:\tpinfold\nTracerPid:\t1\nSeccomp:\t0\n")
			k.missing["openat2"] = true
		}, "syscall_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, k := forgetful(t)
			c.wrong(h, &k)
			h.Probe = k
			again := *h
			doctor.Run(t.Context(), &again, doctor.Checks())
			if r, found := doctor.Explain(t.Context(), h); !found || r.Code != c.code {
				t.Fatalf("got %+v", r)
			}
			whole, _ := forgetful(t)
			whole.State = h.State
			h = whole
			if r, found := doctor.Explain(t.Context(), h); found {
				t.Errorf("it was put right, got %+v", r)
			}
		})
	}
}

// TestNothingKept: what holds for this process alone, or for nobody knows which
// boot, is left behind nowhere, and replaces nothing.
func TestNothingKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*doctor.Host){
		"a filter":      func(h *doctor.Host) { mapFile(h, statusFile, "Name:\tpinfold\nTracerPid:\t0\nSeccomp:\t2\n") },
		"a tracer":      func(h *doctor.Host) { mapFile(h, statusFile, "Name:\tpinfold\nTracerPid:\t7\nSeccomp:\t0\n") },
		"an empty boot": func(h *doctor.Host) { mapFile(h, bootFile, "") },
		"no boot":       func(h *doctor.Host) { delete(h.Root.(fstest.MapFS), bootFile) },
		"a shared state": func(h *doctor.Host) {
			if err := os.Chmod(h.State, 0o722); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := forgetful(t)
			change(h)
			doctor.Run(t.Context(), h, doctor.Checks())
			doctor.Explain(t.Context(), h)
			if list, err := os.ReadDir(h.State); err != nil || len(list) > 0 {
				t.Errorf("kept %v, %v", list, err)
			}
			h, _ = forgetful(t, "openat2")
			want := remember(t, h)
			change(h)
			upgraded(h)
			if got := remember(t, h); got != want {
				t.Errorf("replaced by %s", got)
			}
		})
	}
}

// TestUnclearIsAskedAgain: and nobody takes it for a yes.
func TestUnclearIsAskedAgain(t *testing.T) {
	t.Parallel()
	h, k := forgetful(t)
	k.broken = map[string]error{"openat2": errors.New("EIO"), "landlock": errors.New("EIO")}
	h.Probe = k
	if text := remember(t, h); strings.Contains(text, "openat2") || strings.Contains(text, "landlock") || !strings.Contains(text, "pidfd_open 1\n") {
		t.Errorf("remembered %s", text)
	}
	*k.asked = nil
	doctor.Explain(t.Context(), h)
	if want := []string{"openat2", "landlock"}; !slices.Equal(*k.asked, want) {
		t.Errorf("asked %q, want %q", *k.asked, want)
	}
}

// TestRememberedAtOnce: whoever reads finds what one of many writers wrote, whole.
func TestRememberedAtOnce(t *testing.T) {
	t.Parallel()
	first, _ := forgetful(t, "openat2")
	second, k := forgetful(t)
	second.State, second.Version = first.State, "1.1"
	texts := []string{remember(t, first), remember(t, second)}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 25 {
				h := *[]*doctor.Host{first, second}[i%2]
				h.Probe = kernel{probe: k.probe, asked: &[]string{}}
				if i%2 == 0 {
					h.Probe = kernel{first.Probe.(kernel).probe, &[]string{}}
				}
				doctor.Run(context.Background(), &h, doctor.Checks())
				text, err := os.ReadFile(filepath.Join(h.State, answers))
				if err != nil || !slices.Contains(texts, string(text)) {
					t.Errorf("%v: %s", err, text)
				}
			}
		})
	}
	writers.Wait()
	if list, err := os.ReadDir(first.State); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// FuzzRemembered: whatever stands there, the explanation after the next asks
// nothing, and names what the one before named.
func FuzzRemembered(f *testing.F) {
	for _, s := range []string{"", "openat2 0\n", "landlock 6\nopenat2 1\n", "openat2 0", "openat2 00\n", "openat2 0\nlandlock 6\n", "landlock 999999999999\n", "\n", "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, k := forgetful(t)
		whole := remember(t, h)
		occasion, _, _ := bytes.Cut([]byte(whole), []byte("\n"))
		must(t, os.WriteFile(filepath.Join(h.State, answers), slices.Concat(occasion, []byte("\n"), body), 0o600))
		before, found := doctor.Explain(t.Context(), h)
		*k.asked = nil
		after, again := doctor.Explain(t.Context(), h)
		if found != again || before != after || len(*k.asked) > 0 {
			t.Errorf("%+v, then %+v, asked %q", before, after, *k.asked)
		}
	})
}
