package plan_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/plan"
	"pinfold/policy"
)

// written makes a whole record and answers its directory.
func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r")
	r, err := plan.CreateRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := r.Pin(sample())
	if err != nil {
		t.Fatal(err)
	}
	j, err := r.Journal()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 5).UTC()
	for _, err := range []error{
		j.Add(plan.Step{Time: at, Action: "made", Kind: "mount_point", Path: "/w/a\xff"}),
		j.Add(plan.Step{Time: at, Action: "removed", Kind: "mount_point", Path: "/w/a"}),
		j.Close(),
		r.WriteRoot(plan.Root{Digest: d, BootID: "b", Exe: plan.File{Dev: 1, Ino: 1<<63 + 1}, Namespaces: map[string]uint64{"net": 7}}),
		r.WriteExit(plan.Exit{Time: at, Code: 3, Reason: "exited"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRecordReadsBack(t *testing.T) {
	t.Parallel()
	dir := written(t)
	s, err := plan.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), s.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if s.Digest != digest(t, sample()) || s.Root == nil || s.Root.Exe.Ino != 1<<63+1 || s.Exit == nil || s.Exit.Code != 3 || len(s.Steps) != 2 {
		t.Errorf("got %+v, wanted what was written", s)
	}
	for name, want := range map[string]fs.FileMode{".": fs.ModeDir | 0o700, "plan.json": 0o400, "root": 0o400, "exit": 0o400, "journal": 0o600} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: got mode %v, %v, wanted %v", name, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

func TestRecordOfNothingStarted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r")
	r, err := plan.CreateRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := plan.ReadRecord(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, wanted that there is no plan", err)
	}
	if _, err := r.Pin(sample()); err != nil {
		t.Fatal(err)
	}
	if s, err := plan.ReadRecord(dir); err != nil || s.Root != nil || s.Exit != nil || s.Steps != nil {
		t.Errorf("got %+v, %v, wanted a plan alone", s, err)
	}
}

func TestRecordIsWrittenOnce(t *testing.T) {
	t.Parallel()
	r, err := plan.CreateRecord(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	won := make(chan struct{}, 16)
	for range 16 {
		wg.Go(func() {
			if _, err := r.Pin(sample()); err == nil {
				won <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 16 writers pinned a plan, wanted one", len(won))
	}
	if _, err := r.Pin(sample()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, wanted that it exists", err)
	}
}

// TestRecordSetsAside: a plan of which nothing came makes room for another,
// and stays; one that has run, or has an end, doesn't.
func TestRecordSetsAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r")
	r, err := plan.CreateRecord(dir)
	must(t, err)
	defer r.Close()
	if r.SetAside(1) == nil {
		t.Error("no plan at all was set aside")
	}
	first, err := r.Pin(sample())
	must(t, err)
	must(t, r.SetAside(1))
	other := sample()
	other.Dir = "/another"
	second, err := r.Pin(other)
	must(t, err)
	must(t, r.WriteExit(plan.Exit{Code: 7, Reason: "exited"}))
	if r.SetAside(2) == nil {
		t.Error("a plan that has an end was set aside")
	}
	s, err := plan.ReadRecord(dir)
	must(t, err)
	if s.Digest != second || first == second {
		t.Errorf("the record is of plan %s, wanted %s", s.Digest, second)
	}
	if _, err := os.Lstat(filepath.Join(dir, "plan.1.json")); err != nil {
		t.Error(err)
	}
}

func TestCreateRecordRefuses(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, dir string){
		"a file":         func(t *testing.T, dir string) { put(t, dir, 0o600) },
		"a link":         func(t *testing.T, dir string) { must(t, os.Mkdir(dir+"2", 0o700)); must(t, os.Symlink(dir+"2", dir)) },
		"an open mode":   func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); must(t, os.Chmod(dir, 0o750)) },
		"a used one":     func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); put(t, dir+"/plan.json", 0o400) },
		"leftovers":      func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); put(t, dir+"/.plan.json.new", 0o400) },
		"another's":      func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); giveAway(t, dir) },
		"a missing root": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Dir(dir))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := filepath.Join(t.TempDir(), "top")
			must(t, os.Mkdir(top, 0o700))
			dir := filepath.Join(top, "r")
			prepare(t, dir)
			if r, err := plan.CreateRecord(dir); err == nil {
				r.Close()
				t.Error("got a record, wanted an error")
			} else if name != "a missing root" && !errors.Is(err, policy.ErrDenied) {
				t.Errorf("got %v, wanted a refusal", err)
			}
		})
	}
}

func TestReadRecordRefuses(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(t *testing.T, dir string){
		"an open directory": func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) },
		"a link to it":      func(t *testing.T, dir string) { must(t, os.Rename(dir, dir+"2")); must(t, os.Symlink(dir+"2", dir)) },
		"another owner":     func(t *testing.T, dir string) { giveAway(t, filepath.Join(dir, "plan.json")) },
		"a writable plan":   func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "plan.json"), 0o600)) },
		"a second name":     func(t *testing.T, dir string) { must(t, os.Link(filepath.Join(dir, "plan.json"), dir+"3")) },
		"a linked plan": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "plan.json"), filepath.Join(dir, "p")))
			must(t, os.Symlink("p", filepath.Join(dir, "plan.json")))
		},
		"a FIFO for a plan": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "plan.json")))
			must(t, syscall.Mkfifo(filepath.Join(dir, "plan.json"), 0o400))
		},
		"a directory for a plan": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "plan.json")))
			must(t, os.Mkdir(filepath.Join(dir, "plan.json"), 0o400))
		},
		"an edited plan":  func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "plan.json"), `"/w"`, `"/x"`) },
		"another's root":  func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "root"), "sha256:", "sha256:0") },
		"an unknown fact": func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "root"), `"boot_id"`, `"boat_id"`) },
		"a broken step":   func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "journal"), `"made"`, `made`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := written(t)
			if _, err := plan.ReadRecord(dir); err != nil {
				t.Fatalf("before: %v", err)
			}
			tamper(t, dir)
			if s, err := plan.ReadRecord(dir); err == nil {
				t.Errorf("got %+v, wanted an error", s)
			}
		})
	}
}

// A crash in the middle of a line loses that line alone.
func TestReadRecordTakesACutJournal(t *testing.T) {
	t.Parallel()
	dir := written(t)
	path := filepath.Join(dir, "journal")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Truncate(path, int64(len(b)-3)))
	if s, err := plan.ReadRecord(dir); err != nil || len(s.Steps) != 1 {
		t.Errorf("got %+v, %v, wanted one step", s, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("x"), mode))
}

// edit replaces text in a file and keeps its mode.
func edit(t *testing.T, path, from, to string) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	changed := strings.ReplaceAll(string(b), from, to)
	if changed == string(b) {
		t.Fatalf("nothing to edit in %s", b)
	}
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, []byte(changed), info.Mode()))
}

// giveAway makes a file another user's, which takes root; an ordinary user
// can't even build the attack.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	must(t, os.Chown(path, 65534, 65534))
}
