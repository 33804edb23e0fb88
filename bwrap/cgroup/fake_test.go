package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pinfold/policy"
)

// fake is a kernel with cgroups in memory. It has the rules that matter: a
// child of version 2 gets the files of the controllers that its parent hands
// on, a cgroup that has processes hands on none (but the root), and a cgroup
// that isn't empty can't be removed.
type fake struct {
	files    map[string]string
	v1       map[string]string // mount point -> the files that a new cgroup has, by blanks
	v2       string            // mount point
	readOnly []string          // directories that can't be written
	log      []string          // what was written
}

func newFake(mountinfo, self string) *fake {
	return &fake{
		files: map[string]string{
			"/proc/self/mountinfo": mountinfo, "/proc/self/cgroup": self,
			"/proc/" + strconv.Itoa(os.Getpid()) + "/stat": "1 (a) b) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 0",
		},
		v1: map[string]string{},
	}
}

func (f *fake) ReadFile(name string) ([]byte, error) {
	text, ok := f.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

var controllerFiles = map[string]string{
	"cpu": "cpu.max", "memory": "memory.max memory.swap.max memory.peak memory.events", "pids": "pids.max pids.peak pids.events",
}

func (f *fake) WriteFile(name, text string) error {
	if _, ok := f.files[name]; !ok {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	dir := path.Dir(name)
	switch {
	case path.Base(name) == "cgroup.subtree_control":
		if dir != f.v2 && strings.TrimSpace(f.files[dir+"/cgroup.procs"]) != "" {
			return &fs.PathError{Op: "write", Path: name, Err: syscall.EBUSY}
		}
		text = strings.TrimSpace(f.files[name] + " " + strings.TrimPrefix(text, "+"))
	case path.Base(name) == "cgroup.procs":
		text = strings.TrimSpace(f.files[name] + "\n" + text)
	}
	f.log = append(f.log, name+" "+text)
	f.files[name] = text
	return nil
}

func (f *fake) Mkdir(name string) error {
	parent := path.Dir(name)
	if !f.Writable(parent) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrPermission}
	}
	f.make(name, "cgroup.procs")
	for mount, files := range f.v1 {
		if strings.HasPrefix(name, mount+"/") {
			f.make(name, files)
			return nil
		}
	}
	f.make(name, "cgroup.subtree_control cgroup.kill cgroup.freeze cpu.stat")
	f.files[name+"/cgroup.controllers"] = f.files[parent+"/cgroup.subtree_control"]
	for _, c := range strings.Fields(f.files[parent+"/cgroup.subtree_control"]) {
		f.make(name, controllerFiles[c])
	}
	return nil
}

func (f *fake) make(dir, files string) {
	for _, file := range strings.Fields(files) {
		f.files[dir+"/"+file] = ""
	}
}

func (f *fake) Remove(name string) error {
	procs, ok := f.files[name+"/cgroup.procs"]
	switch {
	case !ok:
		return fs.ErrNotExist
	case strings.TrimSpace(procs) != "":
		return &fs.PathError{Op: "rmdir", Path: name, Err: syscall.EBUSY}
	}
	for file := range f.files {
		if strings.HasPrefix(file, name+"/") {
			delete(f.files, file)
		}
	}
	return nil
}

func (f *fake) List(dir string) []string {
	var names []string
	for file := range f.files {
		rest, ok := strings.CutPrefix(file, dir+"/")
		if name, _, deeper := strings.Cut(rest, "/"); ok && deeper && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (f *fake) Writable(dir string) bool { return !slices.Contains(f.readOnly, dir) }

// the made cgroup beneath a parent.
func (f *fake) made(t *testing.T, parent string) string {
	t.Helper()
	for _, name := range f.List(parent) {
		if strings.HasPrefix(name, "pinfold-") {
			return parent + "/" + name
		}
	}
	t.Fatalf("nothing was made beneath %s", parent)
	return ""
}

func (f *fake) expect(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for file, want := range files {
		if got := f.files[dir+"/"+file]; got != want {
			t.Errorf("%s: got %q, wanted %q", file, got, want)
		}
	}
}

// unified is a machine of version 2 alone, with its caller deep inside.
func unified() *fake {
	f := newFake("30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice/user-1000.slice/session-1.scope\n")
	f.v2 = "/sys/fs/cgroup"
	f.files["/sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory hugetlb pids"
	f.files["/sys/fs/cgroup/cgroup.subtree_control"] = ""
	f.files["/sys/fs/cgroup/cgroup.procs"] = "1"
	return f
}

// legacy is a machine of version 1, some of whose controllers share a mount.
func legacy() *fake {
	f := newFake(`31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 /docker/c1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 23 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 23 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 23 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
36 23 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`, "5:freezer:/\n4:pids:/a\n3:memory:/docker/c1/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/\n")
	f.v2 = "/sys/fs/cgroup/unified"
	f.files["/sys/fs/cgroup/unified/cgroup.controllers"] = "hugetlb"
	f.v1 = map[string]string{
		"/sys/fs/cgroup/cpu,cpuacct": "cpu.cfs_period_us cpu.cfs_quota_us cpu.stat cpuacct.usage",
		"/sys/fs/cgroup/memory":      "memory.limit_in_bytes memory.max_usage_in_bytes memory.oom_control",
		"/sys/fs/cgroup/pids":        "pids.max pids.peak pids.events",
		"/sys/fs/cgroup/freezer":     "freezer.state",
	}
	return f
}

func refusal(t *testing.T, err error, subject string) *policy.Refusal {
	t.Helper()
	var r *policy.Refusal
	if !errors.As(err, &r) || !errors.Is(err, policy.ErrUnavailable) || r.Code != "limit_unavailable" {
		t.Fatalf("got %v, wanted limit_unavailable", err)
	}
	if r.Subject != subject || r.Fix == "" {
		t.Errorf("got subject %q, wanted %q; fix %q", r.Subject, subject, r.Fix)
	}
	return r
}
