package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"

	"pinfold/container"
	"pinfold/policy"
)

func mountsOf(t *testing.T, text string) []*mountinfo.Info {
	t.Helper()
	list, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFindCgroups(t *testing.T) {
	t.Parallel()
	const (
		v1 = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		v2   = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		part = "30 25 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for name, tc := range map[string]struct {
		text, mounts string
		want         cgroups
	}{
		"version 1": {"5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/x\n0::/y\n", v1, cgroups{
			"memory": "/sys/fs/cgroup/memory/docker/a", "cpu": "/sys/fs/cgroup/cpu,cpuacct/docker/a",
			"cpuacct": "/sys/fs/cgroup/cpu,cpuacct/docker/a", "": "/sys/fs/cgroup/unified/y",
		}},
		"version 2":         {"0::/system.slice/docker-a.scope\n", v2, cgroups{"": "/sys/fs/cgroup/system.slice/docker-a.scope"}},
		"a part is mounted": {"0::/user.slice/x\n", part, cgroups{"": "/sys/fs/cgroup/x"}},
		"another part":      {"0::/system.slice/x\n", part, cgroups{}},
		"nonsense":          {"what\n", v2, cgroups{}},
	} {
		if diff := cmp.Diff(tc.want, findCgroups(tc.text, mountsOf(t, tc.mounts))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// files makes a cgroup's directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestReadBack: a limit that the kernel doesn't have is refused, whatever the
// engine said.
func TestReadBack(t *testing.T) {
	t.Parallel()
	all := container.Limits{Memory: 1 << 20, CPUs: 0.5, PIDs: 32}
	two := func(m map[string]string) cgroups { return cgroups{"": files(t, m)} }
	one := func(m map[string]string) cgroups {
		dir := files(t, m)
		return cgroups{"memory": dir, "cpu": dir, "pids": dir}
	}
	for name, tc := range map[string]struct {
		c     cgroups
		want  container.Limits
		field string // that is refused, "" for none
	}{
		"all, version 2":      {two(map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "cpu.max": "50000 100000", "pids.max": "32"}), all, ""},
		"all, version 1":      {one(map[string]string{"memory.limit_in_bytes": "1048576", "memory.memsw.limit_in_bytes": "1048576", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000", "pids.max": "32"}), all, ""},
		"none asked for":      {cgroups{}, container.Limits{}, ""},
		"no controller":       {cgroups{}, container.Limits{Memory: 1}, "limits.memory"},
		"memory unlimited":    {two(map[string]string{"memory.max": "max", "memory.swap.max": "0"}), container.Limits{Memory: 1}, "limits.memory"},
		"more memory":         {two(map[string]string{"memory.max": "2", "memory.swap.max": "0"}), container.Limits{Memory: 1}, "limits.memory"},
		"swap besides":        {two(map[string]string{"memory.max": "1", "memory.swap.max": "max"}), container.Limits{Memory: 1}, "limits.memory"},
		"swap, version 1":     {one(map[string]string{"memory.limit_in_bytes": "1", "memory.memsw.limit_in_bytes": "9"}), container.Limits{Memory: 1}, "limits.memory"},
		"all the processors":  {two(map[string]string{"cpu.max": "max 100000"}), container.Limits{CPUs: 1}, "limits.cpus"},
		"more processors":     {two(map[string]string{"cpu.max": "200000 100000"}), container.Limits{CPUs: 1}, "limits.cpus"},
		"quota off":           {one(map[string]string{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}), container.Limits{CPUs: 1}, "limits.cpus"},
		"processes unlimited": {two(map[string]string{"pids.max": "max"}), container.Limits{PIDs: 5}, "limits.pids"},
	} {
		err := tc.c.check(container.Info{Provider: "docker"}, tc.want)
		var r *policy.Refusal
		switch {
		case tc.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.field != "" && (!errors.As(err, &r) || r.Code != "limit_unenforced" || r.Subject != tc.field):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := cgroups{"": files(t, map[string]string{
		"cpu.stat": "usage_usec 2500000\nuser_usec 1", "memory.peak": "4096", "pids.peak": "7",
		"memory.events": "low 0\noom 3\noom_kill 2", "pids.events": "max 4",
	})}
	u := c.usage()
	if u.CPUMS != 2500 || u.PeakMemory != 4096 || u.Processes != 7 || c.outOfMemory() != 2 || c.pidsRefused() != 4 {
		t.Errorf("%+v, %d, %d", u, c.outOfMemory(), c.pidsRefused())
	}
	if u := (cgroups{}).usage(); u.CPUMS != 0 || u.PeakMemory != 0 {
		t.Errorf("of nothing: %+v", u)
	}
}
