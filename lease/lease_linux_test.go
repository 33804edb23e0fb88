package lease_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if !errors.Is(err, os.ErrNotExist) {
		must(t, err)
		return true
	}
	return false
}

func take(t *testing.T, r lease.Request) *lease.Held {
	t.Helper()
	h, err := lease.Take(r)
	must(t, err)
	return h
}

// files are what a state directory holds of leases and tenants.
func files(t *testing.T, state string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(state, "covers"))
	must(t, err)
	var out []string
	for _, e := range list {
		if strings.Contains(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out
}

// writeLease is what a run leaves that was killed before it could note what it
// had made.
func writeLease(t *testing.T, state, path string, intent time.Time) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"path": path, "dir": true, "intent_ns": intent.UnixNano()})
	must(t, err)
	dir := filepath.Join(state, "covers")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)+".lease"), b, 0o600))
}

// A run that was killed between the intent and the note is known by the time:
// what is older was there before, and what is younger came after.
func TestReclaimIntent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/old", 0o700))
	time.Sleep(30 * time.Millisecond) // past the clock's slack
	intent := time.Now()
	must(t, os.Mkdir(dir+"/new", 0o700))
	var st unix.Statx_t
	must(t, unix.Statx(unix.AT_FDCWD, dir+"/new", 0, unix.STATX_BTIME, &st))
	if st.Mask&unix.STATX_BTIME == 0 {
		t.Skip("the file system keeps no birth times")
	}
	// Somebody else's: made later, or otherwise.
	must(t, os.Mkdir(dir+"/open", 0o755))
	must(t, os.Chmod(dir+"/open", 0o755))
	writeLease(t, dir+"/state", dir+"/open", intent)
	must(t, os.Mkdir(dir+"/later", 0o700))
	writeLease(t, dir+"/state", dir+"/later", intent.Add(-time.Minute))
	writeLease(t, dir+"/state", dir+"/old", intent)
	writeLease(t, dir+"/state", dir+"/new", intent)
	got, err := lease.Reclaim(dir + "/state")
	must(t, err)
	if diff := cmp.Diff([]string{dir + "/new"}, got); diff != "" {
		t.Errorf("reclaimed: %s", diff)
	}
	for _, name := range []string{"/old", "/open", "/later"} {
		if !exists(t, dir+name) {
			t.Errorf("%s was somebody else's", name)
		}
	}
}

// The leases of a tenant last as long as anybody has the file that it was
// handed, whatever becomes of the process that took them.
func TestTenants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, secret := dir+"/state", dir+"/secret"
	request := lease.Request{State: state, Missing: []lease.Point{{Path: secret, Dir: true}}, Covered: []string{secret}, Outlives: true}
	first := take(t, request)
	handed, err := unix.Dup(int(first.File().Fd())) // as another process has it
	must(t, err)
	second := take(t, request)
	third := take(t, lease.Request{State: state, Covered: []string{secret}}) // one that nothing outlives
	for _, h := range []*lease.Held{first, second, third} {
		must(t, h.Release())
		if !exists(t, secret) {
			t.Fatal("taken from under the tenant")
		}
	}
	left, err := lease.Leftovers(state)
	got, rerr := lease.Reclaim(state)
	must(t, errors.Join(err, rerr))
	if len(left) > 0 || len(got) > 0 || !exists(t, secret) {
		t.Fatalf("left over: %v, reclaimed: %v", left, got)
	}
	again, err := lease.Again(request)
	must(t, err)
	must(t, unix.Close(handed))
	if left, err := lease.Leftovers(state); err != nil || len(left) > 0 {
		t.Fatalf("left over: %v, %v", left, err)
	}
	must(t, again.Release())
	if exists(t, secret) || len(files(t, state)) > 0 {
		t.Errorf("left behind: %v", files(t, state))
	}
}

// What a supervisor left that was killed with its tenant is taken away by the
// next one.
func TestReclaimTenant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, secret := dir+"/state", dir+"/secret"
	h := take(t, lease.Request{State: state, Missing: []lease.Point{{Path: secret}}, Outlives: true})
	name := filepath.Base(h.File().Name())
	must(t, h.Release())
	h = take(t, lease.Request{State: state, Missing: []lease.Point{{Path: secret}}, Outlives: true})
	list, err := filepath.Glob(state + "/covers/*.lease")
	must(t, err)
	text, err := os.ReadFile(list[0])
	must(t, err)
	must(t, h.Release())
	if strings.Contains(string(text), name) || exists(t, secret) {
		t.Fatalf("the lease still names a tenant that has gone: %s", text)
	}
	// As if that last Release had not been: the note, the tenant's file, and
	// something new at the path.
	must(t, os.WriteFile(list[0], text, 0o600))
	var note struct{ Tenants []string }
	must(t, json.Unmarshal(text, &note))
	must(t, os.WriteFile(filepath.Join(state, "covers", note.Tenants[0]), nil, 0o600))
	must(t, os.WriteFile(secret, []byte("mine"), 0o600))
	got, err := lease.Reclaim(state)
	must(t, err)
	if len(got) > 0 || !exists(t, secret) || len(files(t, state)) > 0 {
		t.Errorf("reclaimed %v, left %v", got, files(t, state))
	}
}

// What is made and removed is in the journal.
func TestJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rec, err := plan.CreateRecord(dir + "/rec")
	must(t, err)
	defer rec.Close()
	h := take(t, lease.Request{State: dir + "/state", Missing: []lease.Point{{Path: dir + "/a", Dir: true}, {Path: dir + "/a/b"}}, Record: rec})
	must(t, h.Make(lease.Point{Path: dir + "/late"}))
	must(t, h.Release())
	_, err = rec.Pin(&plan.Plan{Version: plan.Version})
	must(t, err)
	s, err := plan.ReadRecord(dir + "/rec")
	must(t, err)
	var got []string
	for _, step := range s.Steps {
		got = append(got, step.Action+" "+filepath.Base(step.Path))
	}
	want := []string{"made a", "made b", "made late", "removed late", "removed b", "removed a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func look(t *testing.T, state string) *lease.Look {
	t.Helper()
	l, err := lease.BeginLook(state)
	must(t, err)
	return l
}

// A mount point that a launch may have seen stays until it has its leases: the
// last one to look removes it, unless it needs it.
func TestLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, secret := dir+"/state", dir+"/secret"
	request := lease.Request{State: state, Missing: []lease.Point{{Path: secret, Dir: true}}, Covered: []string{secret}}

	first := take(t, request)
	a, b := look(t, state), look(t, state)
	must(t, first.Release())
	left, err := lease.Leftovers(state)
	reclaimed, rerr := lease.Reclaim(state)
	must(t, errors.Join(err, rerr, a.End()))
	if !exists(t, secret) || len(left)+len(reclaimed) > 0 {
		t.Errorf("taken away while somebody looks, or left over %v, reclaimed %v", left, reclaimed)
	}
	must(t, errors.Join(b.End(), b.End()))
	if exists(t, secret) || len(files(t, state)) > 0 {
		t.Errorf("left behind: %v", files(t, state))
	}

	first = take(t, request)
	a = look(t, state)
	must(t, first.Release())
	second := take(t, lease.Request{State: state, Covered: []string{secret}}) // it saw the mount point
	must(t, a.End())
	if !exists(t, secret) {
		t.Error("taken away from one that looked")
	}
	must(t, second.Release())
	if exists(t, secret) || len(files(t, state)) > 0 {
		t.Errorf("left behind: %v", files(t, state))
	}
}

// Where no run has made a mount point a look makes nothing; one that begins to
// meanwhile has it made again.
func TestLookMissed(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	a := look(t, state)
	if list, err := os.ReadDir(state); err != nil || len(list) > 0 || a.Missed() {
		t.Fatalf("made %v, missed %v: %v", list, a.Missed(), err)
	}
	held := take(t, lease.Request{State: state, Missing: []lease.Point{{Path: state + "/secret"}}})
	b := look(t, state)
	if !a.Missed() || b.Missed() {
		t.Errorf("missed: %v, then %v", a.Missed(), b.Missed())
	}
	must(t, errors.Join(a.End(), held.Release()))
	if !exists(t, state+"/secret") {
		t.Error("taken away while somebody looks")
	}
	must(t, b.End())
	if exists(t, state+"/secret") {
		t.Error("left behind")
	}
}

// A lease that can't be read blocks its path, with advice, until it is set
// aside, which isn't done to one that is held. What stands at the path stays.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, secret := dir+"/state", dir+"/secret"
	request := lease.Request{State: state, Missing: []lease.Point{{Path: secret, Dir: true}}, Covered: []string{secret}}
	h := take(t, request)
	list, err := filepath.Glob(state + "/covers/*.lease")
	must(t, err)
	for _, text := range []string{"{\"path\":\"/so", "\x00\x00\x00\x00"} {
		must(t, os.WriteFile(list[0], []byte(text), 0o600))
		if got, err := lease.SetAside(state, false); err != nil || len(got) > 0 {
			t.Fatalf("one that is held was set aside: %v, %v", got, err)
		}
	}
	if err := h.Release(); err == nil {
		t.Error("a run doesn't say that its lease is damaged")
	}
	_, err = lease.Take(request)
	if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "lease_damaged" || !strings.Contains(r.Fix, "pinfold reap") {
		t.Errorf("taken: %v", err)
	}
	if left, err := lease.Leftovers(state); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	for _, dry := range []bool{true, false} {
		got, err := lease.SetAside(state, dry)
		must(t, err)
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("dry run %v: set aside %s", dry, diff)
		}
	}
	removed, err := lease.Reclaim(state)
	must(t, err)
	must(t, take(t, request).Release())
	if len(removed) > 0 || !exists(t, secret) || !exists(t, list[0]+".damaged") {
		t.Errorf("removed %v, left %v", removed, files(t, state))
	}
}

// TestVacate: whoever has a file of the run's by chance, as a child between
// fork and exec does, keeps nothing in place once the sandbox has gone.
func TestVacate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	request := lease.Request{State: filepath.Join(dir, "state"), Missing: []lease.Point{{Path: secret}}, Outlives: true}
	for vacate, stays := range map[bool]bool{false: true, true: false} {
		h := take(t, request)
		fd, err := unix.Dup(int(h.File().Fd()))
		if err != nil {
			t.Fatal(err)
		}
		end := h.Release
		if vacate {
			end = h.Vacate
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(secret); (err == nil) != stays {
			t.Errorf("vacated: %v: %v", vacate, err)
		}
		unix.Close(fd)
		if _, err := lease.Reclaim(request.State); err != nil {
			t.Error(err)
		}
	}
}

// TestUnreadable: what can't be listed may hold the lease that keeps a covered
// path's mount point in place.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	must(t, os.WriteFile(filepath.Join(state, "covers"), nil, 0o600)) // no directory
	if h, err := lease.Take(lease.Request{State: state, Covered: []string{"/some/path"}}); err == nil {
		t.Errorf("leases were taken: %v", h.Release())
	}
	if _, err := lease.Reclaim(state); err == nil {
		t.Error("nothing was said to be there to reclaim")
	}
}

// A path need not be UTF-8, and another one that looks like it when it is
// printed is another one.
func TestAnyPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := dir + "/state"
	var points []lease.Point
	for _, name := range []string{"\xfd", "\xfc", "\ufffd", "a\nb", "\x01", `\u0000base64:9Q==`} {
		points = append(points, lease.Point{Path: dir + "/" + name, Dir: true})
	}
	h := take(t, lease.Request{State: state, Missing: points})
	must(t, os.Mkdir(points[2].Path+"/used", 0o700))
	must(t, h.Release())
	for i, p := range points {
		if stands, used := exists(t, p.Path), i == 2; stands != used {
			t.Errorf("%q stands afterwards: %v", p.Path, stands)
		}
	}
}
