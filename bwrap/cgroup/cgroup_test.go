package cgroup_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap/cgroup"
)

var limits = cgroup.Limits{CPUs: 1.5, Memory: 64 << 20, PIDs: 20}

// noSystemd is a machine whose manager doesn't run.
type noSystemd struct{}

func (noSystemd) Running() bool { return false }
func (noSystemd) StartScope(context.Context, string, cgroup.Limits, []int) error {
	return errors.New("it doesn't run")
}

func placed(t *testing.T, l cgroup.Limits, o cgroup.Options) *cgroup.Tree {
	t.Helper()
	place, err := cgroup.Find(l, o)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := place.Make(l)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestUnifiedAtTheTop(t *testing.T) {
	t.Parallel()
	f := unified()
	tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	dir := f.made(t, "/sys/fs/cgroup")
	f.expect(t, dir, map[string]string{"cpu.max": "150000 100000", "memory.max": "67108864", "memory.swap.max": "0", "pids.max": "20", "cgroup.procs": ""})
	if err := tree.Attach(t.Context(), 7, 8); err != nil {
		t.Fatal(err)
	}
	f.expect(t, dir, map[string]string{"cgroup.procs": "7\n8"})
	f.files[dir+"/cpu.stat"] = "usage_usec 1500\nnr_throttled 4\n"
	f.files[dir+"/memory.peak"] = "1000\n"
	f.files[dir+"/memory.events"] = "low 0\noom 3\noom_kill 2\n"
	f.files[dir+"/pids.peak"] = "6\n"
	f.files[dir+"/pids.events"] = "max 5\n"
	want := cgroup.Stats{CPU: 1500_000, PeakMemory: 1000, PeakPIDs: 6, OOMKills: 2, PIDsMax: 5, Throttled: 4}
	if diff := cmp.Diff(want, tree.Stats()); diff != "" {
		t.Error(diff)
	}
	if err := tree.Kill(); err != nil || f.files[dir+"/cgroup.kill"] != "1" {
		t.Errorf("cgroup.kill holds %q: %v", f.files[dir+"/cgroup.kill"], err)
	}
	f.files[dir+"/cgroup.procs"] = ""
	if err := tree.Remove(t.Context()); err != nil || len(f.List("/sys/fs/cgroup")) != 0 {
		t.Errorf("left: %v (%v)", f.List("/sys/fs/cgroup"), err)
	}
}

func TestUnifiedBeneathANamedCgroup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/sys/fs/cgroup/ci/job", "/ci/job", "ci/job"} {
		f := unified()
		f.files["/sys/fs/cgroup/ci/job/cgroup.procs"] = ""
		f.files["/sys/fs/cgroup/ci/job/cgroup.subtree_control"] = "memory"
		placed(t, limits, cgroup.Options{Kernel: f, Path: name, Manager: noSystemd{}})
		f.expect(t, f.made(t, "/sys/fs/cgroup/ci/job"), map[string]string{"memory.max": "67108864"})
		f.expect(t, "/sys/fs/cgroup/ci/job", map[string]string{"cgroup.subtree_control": "memory cpu pids"})
	}
}

// A cgroup that has processes can't hand controllers on: the limit that fails
// is named, and nothing is left.
func TestUnifiedBusy(t *testing.T) {
	t.Parallel()
	f := unified()
	f.files["/sys/fs/cgroup/own/cgroup.procs"] = "9"
	f.files["/sys/fs/cgroup/own/cgroup.subtree_control"] = ""
	place, err := cgroup.Find(cgroup.Limits{PIDs: 3}, cgroup.Options{Kernel: f, Path: "/own", Manager: noSystemd{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = place.Make(cgroup.Limits{PIDs: 3})
	refusal(t, err, "limits.pids")
	if len(f.List("/sys/fs/cgroup/own")) != 0 {
		t.Errorf("left: %v", f.List("/sys/fs/cgroup/own"))
	}
}

func TestUnifiedWithoutDelegation(t *testing.T) {
	t.Parallel()
	f := unified()
	f.readOnly = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/other"}
	_, err := cgroup.Find(cgroup.Limits{CPUs: 1}, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	if r := refusal(t, err, "limits.cpus"); !strings.Contains(r.Fix, "delegated to you") {
		t.Errorf("the fix is %q", r.Fix)
	}
	_, err = cgroup.Find(cgroup.Limits{Memory: 1}, cgroup.Options{Kernel: f, Path: "/other", Manager: noSystemd{}})
	refusal(t, err, "limits.memory")
}

func TestLegacy(t *testing.T) {
	t.Parallel()
	f := legacy()
	tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	f.expect(t, f.made(t, "/sys/fs/cgroup/cpu,cpuacct"), map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"})
	// The mount shows a part of the tree: the caller is at its /b.
	f.expect(t, f.made(t, "/sys/fs/cgroup/memory/b"), map[string]string{"memory.limit_in_bytes": "67108864"})
	f.expect(t, f.made(t, "/sys/fs/cgroup/pids/a"), map[string]string{"pids.max": "20"})
	if err := tree.Attach(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory/b", "/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/freezer"} {
		dir := f.made(t, parent)
		f.expect(t, dir, map[string]string{"cgroup.procs": "7"})
		f.files[dir+"/cgroup.procs"] = ""
	}
	f.files[f.made(t, "/sys/fs/cgroup/cpu,cpuacct")+"/cpuacct.usage"] = "123\n"
	f.files[f.made(t, "/sys/fs/cgroup/memory/b")+"/memory.oom_control"] = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"
	if s := tree.Stats(); s.CPU != 123 || s.OOMKills != 1 {
		t.Errorf("got %+v", s)
	}
	if err := tree.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for file := range f.files {
		if strings.Contains(file, "pinfold-") {
			t.Errorf("left: %s", file)
		}
	}
}

func TestLegacyLacks(t *testing.T) {
	t.Parallel()
	f := legacy()
	f.readOnly = []string{"/sys/fs/cgroup/pids/a"}
	_, err := cgroup.Find(limits, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	refusal(t, err, "limits.pids")
	placed(t, cgroup.Limits{CPUs: 1}, cgroup.Options{Kernel: f, Manager: noSystemd{}}) // pids aren't asked for
	f.files["/proc/self/mountinfo"] = ""
	_, err = cgroup.Find(cgroup.Limits{Memory: 1}, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	refusal(t, err, "limits.memory")
}

// What a killed program left is taken away, and what is somebody's stays.
func TestStale(t *testing.T) {
	t.Parallel()
	f := unified()
	own := "/sys/fs/cgroup/pinfold-" + strconv.Itoa(os.Getpid()) + "-777-aa"
	for dir, procs := range map[string]string{
		"/sys/fs/cgroup/pinfold-99999999-5-aa": "", "/sys/fs/cgroup/pinfold-99999999-5-bb": "12", "/sys/fs/cgroup/pinfold-by-hand": "",
		own: "", "/sys/fs/cgroup/pinfold-" + strconv.Itoa(os.Getpid()) + "-778-aa": "",
	} {
		f.files[dir+"/cgroup.procs"] = procs
	}
	tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: noSystemd{}})
	if err := tree.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"pinfold-99999999-5-bb": true, "pinfold-by-hand": true, own[len("/sys/fs/cgroup/"):]: true}
	got := map[string]bool{}
	for _, name := range f.List("/sys/fs/cgroup") {
		got[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// scope is a manager that makes what it is told to, less what it forgets.
type scope struct {
	*fake
	forget string
	lose   bool // leaves processes where they are
}

func (s scope) Running() bool { return true }

func (s scope) StartScope(_ context.Context, unit string, l cgroup.Limits, processes []int) error {
	dir := "/sys/fs/cgroup/user.slice/" + unit
	s.make(dir, "cgroup.procs cgroup.kill cpu.stat cpu.max memory.max pids.max")
	s.files[dir+"/memory.max"] = strconv.FormatInt(l.Memory, 10)
	s.files[dir+"/pids.max"] = strconv.FormatInt(l.PIDs, 10)
	s.files[dir+"/cpu.max"] = "75000 50000"
	s.files[dir+"/"+s.forget] = "max"
	for _, pid := range processes {
		where := "/user.slice/" + unit
		if s.lose && pid == processes[len(processes)-1] {
			where = "/user.slice/other.scope"
		}
		s.files["/proc/"+strconv.Itoa(pid)+"/cgroup"] = "0::" + where + "\n"
	}
	return nil
}

func TestScope(t *testing.T) {
	t.Parallel()
	f := unified()
	f.readOnly = []string{"/sys/fs/cgroup"}
	tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: scope{fake: f}})
	if err := tree.Attach(t.Context(), 7, 8); err != nil {
		t.Fatal(err)
	}
	if err := tree.Kill(); err != nil {
		t.Fatal(err)
	}
	if dir := f.made(t, "/sys/fs/cgroup/user.slice"); f.files[dir+"/cgroup.kill"] != "1" {
		t.Errorf("the scope %s wasn't killed", dir)
	}
}

// A manager that leaves out what it can't do says nothing, and must not pass.
func TestScopeIsLookedAt(t *testing.T) {
	t.Parallel()
	for file, subject := range map[string]string{"memory.max": "limits.memory", "pids.max": "limits.pids", "cpu.max": "limits.cpus"} {
		f := unified()
		tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: scope{fake: f, forget: file}})
		refusal(t, tree.Attach(t.Context(), 7), subject)
	}
	f := unified()
	tree := placed(t, limits, cgroup.Options{Kernel: f, Manager: scope{fake: f, lose: true}})
	refusal(t, tree.Attach(t.Context(), 7, 8), "limits.memory")
}

// "All" asks for every controller, whatever the limits.
func TestAll(t *testing.T) {
	t.Parallel()
	f := legacy()
	f.readOnly = []string{"/sys/fs/cgroup/memory/b"}
	if _, err := cgroup.Find(cgroup.Limits{}, cgroup.Options{Kernel: f, Manager: noSystemd{}}); err != nil {
		t.Errorf("without limits: %v", err)
	}
	_, err := cgroup.Find(cgroup.Limits{}, cgroup.Options{Kernel: f, Manager: noSystemd{}, All: true})
	refusal(t, err, "limits.memory")
}
