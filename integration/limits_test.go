//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outcome is what the tests read of a result.
type outcome struct {
	Reason string `json:"reason"`
	Exit   int    `json:"exit"`
	Stop   string `json:"stop"`
	Usage  struct {
		Source string  `json:"source"`
		CPU    float64 `json:"cpu_ms"`
		Peak   int64   `json:"peak_memory_bytes"`
	} `json:"usage"`
	Limits []struct {
		Name string `json:"name"`
		Hits int64  `json:"hits"`
	} `json:"limits"`
	Refusal struct {
		Code, Subject string
	} `json:"refusal"`
}

func (o outcome) hits(name string) int64 {
	for _, l := range o.Limits {
		if l.Name == name {
			return l.Hits
		}
	}
	return -1
}

// limited runs a command with limits and reads what its result says.
func (l *lab) limited(t *testing.T, limits doc, argv ...string) (outcome, result) {
	t.Helper()
	file := filepath.Join(l.root, "result.json")
	p := workspaceOnly()
	p["limits"] = limits
	r := l.wrap(t, launch{policy: p, flags: []string{"--quiet", "--result", file, "--grace", "300ms"}, argv: argv})
	var o outcome
	if err := json.Unmarshal([]byte(read(t, file)), &o); err != nil {
		t.Fatalf("%v\n%v", err, r)
	}
	if o.Exit != r.code {
		t.Errorf("the result says exit %d: %v", o.Exit, r)
	}
	return o, r
}

// hasCgroups reports whether this machine lets this user have limits at all:
// the product's own word, which the drivers check in both cases.
func hasCgroups(t *testing.T, l *lab) bool {
	t.Helper()
	r := l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--require", "cgroup_limits"}, argv: []string{"true"}})
	given := os.Getenv("PINFOLD_CGROUPS") != "" // then the tests must have them
	if r.code != 0 && (given || !strings.Contains(r.stderr, "requirement_unmet")) {
		t.Fatalf("cgroup_limits: %v", r)
	}
	return r.code == 0
}

// TestRequiredCgroups: a limit that can't be kept is named before what is
// required beyond it.
func TestRequiredCgroups(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if hasCgroups(t, l) {
		t.Skip("limits can be kept here")
	}
	r := l.wrap(t, launch{policy: doc{"limits": doc{"memory": "1g"}, "require": []string{"cgroup_limits"}}, argv: ran()})
	refused(t, r, "limit_unavailable", "limits.memory")
	r = l.wrap(t, launch{policy: doc{"limits": doc{"files": 99}, "require": []string{"cgroup_limits"}}, argv: ran()})
	refused(t, r, "requirement_unmet", "cgroup_limits")
}

// leftCgroups are cgroups of ours anywhere.
func leftCgroups(t *testing.T) []string {
	t.Helper()
	var left []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "pinfold-") {
			left = append(left, p)
		}
		return nil
	})
	return left
}

// A script and a program tell every kind of ending apart by the result alone.
func TestDrivers(t *testing.T) {
	l := newLab(t)
	var cgroup []string
	if hasCgroups(t, l) {
		cgroup = []string{"cgroup"}
	}
	for _, argv := range [][]string{{"sh", "drivers/endings.sh"}, {"python3", "drivers/endings.py"}} {
		t.Run(argv[0], func(t *testing.T) {
			home := filepath.Join(l.root, "driver-"+argv[0])
			mkdir(t, home)
			args := append(append(argv[1:], built.pinfold, home), cgroup...)
			if argv[0] == "sh" {
				args = args[:3]
			}
			out, err := exec.CommandContext(t.Context(), argv[0], args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), " 0 wrong") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestLimitsHold(t *testing.T) {
	l := newLab(t)
	if !hasCgroups(t, l) {
		t.Log("no cgroup for this user: the drivers check that such limits are refused")
		return
	}
	t.Run("fork bomb", func(t *testing.T) {
		o, _ := l.limited(t, doc{"pids": 40, "timeout": "4s"}, "sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60")
		if o.hits("pids") < 1 || o.Usage.Source != "cgroup" {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("memory hog", func(t *testing.T) {
		o, r := l.limited(t, doc{"memory": "64m"}, "python3", "-c", "x = bytearray(700 << 20)")
		if o.Reason != "oom" || o.hits("memory") < 1 || o.Usage.Peak > 64<<20 || r.code != 137 {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("memory in a private directory", func(t *testing.T) {
		o, _ := l.limited(t, doc{"memory": "64m"}, "sh", "-c", "head -c 300000000 /dev/zero > /tmp/big")
		if o.hits("memory") < 1 {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("detached daemon", func(t *testing.T) {
		o, _ := l.limited(t, doc{"pids": 40, "timeout": "3s"}, "sh", "-c", "(setsid setsid sleep 7531 &); exec sleep 60")
		if o.Reason != "timeout" || o.hits("timeout") != 1 || processesOf("sleep\x007531") > 0 {
			t.Errorf("got %+v, left: %d", o, processesOf("sleep\x007531"))
		}
	})
	if left := leftCgroups(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// processesOf counts processes by their command line.
func processesOf(cmdline string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), cmdline) {
			n++
		}
	}
	return n
}

// What the kernel keeps by process, and the supervisor by the clock, needs no
// cgroup.
func TestLimitsWithoutCgroups(t *testing.T) {
	l := newLab(t)
	t.Run("disk filler", func(t *testing.T) {
		o, r := l.limited(t, doc{"tmp": "1m"}, "sh", "-c",
			"for d in /tmp /var/tmp /dev/shm; do head -c 9000000 /dev/zero > $d/x; stat -c %s $d/x; done 2>/dev/null")
		if r.stdout != "1048576\n1048576\n1048576\n" || o.hits("tmp") != 3 {
			t.Errorf("got %+v, %v", o, r)
		}
		if o, r := l.limited(t, doc{"tmp": "1m"}, "sh", "-c", "head -c 900000 /dev/zero > /tmp/x"); o.hits("tmp") != 0 {
			t.Errorf("with room to spare: %+v, %v", o, r)
		}
	})
	t.Run("open files", func(t *testing.T) {
		_, r := l.limited(t, doc{"files": 20}, "sh", "-c", "ulimit -n; ulimit -Hn; ulimit -n 21")
		if !strings.HasPrefix(r.stdout, "20\n20\n") || r.code == 0 {
			t.Errorf("got %v", r)
		}
	})
	t.Run("file size", func(t *testing.T) {
		_, r := l.limited(t, doc{"file_size": "64k"}, "sh", "-c", "head -c 200000 /dev/zero > big; stat -c %s big")
		if r.stdout != "65536\n" {
			t.Errorf("got %v", r)
		}
	})
	t.Run("stubborn tree", func(t *testing.T) {
		o, _ := l.limited(t, doc{"timeout": "3s"}, "sh", "-c", "trap '' TERM; (trap '' TERM; setsid sleep 7532) & while :; do sleep 1; done")
		if o.Reason != "timeout" || o.Stop != "kill" || processesOf("sleep\x007532") > 0 {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("output is not lost", func(t *testing.T) {
		_, r := l.limited(t, doc{"idle_timeout": "20s"}, "sh", "-c", "seq 200000; seq 5 >&2")
		if !strings.HasSuffix(r.stdout, "\n199999\n200000\n") || len(r.stdout) != 1288895 || r.stderr != "1\n2\n3\n4\n5\n" {
			t.Errorf("%d bytes of output, %q of error", len(r.stdout), r.stderr)
		}
	})
}

// TestIdleByTraffic: what moves through the boundary is no silence, whichever
// way it takes, nor is the time right after it. A connection on which nothing
// moves is one.
func TestIdleByTraffic(t *testing.T) {
	l := newLab(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			<-r.Context().Done()
			return
		case "/short":
			return
		}
		for range 30 { // for longer than the timeout, less than it apart
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(200 * time.Millisecond)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	at := strings.TrimPrefix(server.URL, "http://")
	_, port, err := net.SplitHostPort(at)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	for name, c := range map[string]struct {
		network doc
		path    string
		reason  string
	}{
		"the proxy":         {doc{"allow": []string{at}, "mode": "proxy"}, "/slow", "exited"},
		"the proxy, silent": {doc{"allow": []string{at}, "mode": "proxy"}, "/silent", "timeout"},
		"a port":            {doc{"host_ports": []int{number}}, "/slow", "exited"},
		"a port, silent":    {doc{"host_ports": []int{number}}, "/silent", "timeout"},
		"the proxy, short":  {doc{"allow": []string{at}, "mode": "proxy"}, "/short", "exited"},
		"refused, short":    {doc{"allow": []string{"other.example"}, "mode": "proxy"}, "/short", "timeout"},
		"a port, short":     {doc{"host_ports": []int{number}}, "/short", "exited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(l.root, strings.ReplaceAll(name, " ", "-")+".json")
			p := workspaceOnly()
			limit, command := "4s", "curl -sS -o /dev/null http://"+at+c.path+" && sleep 2"
			if c.path == "/short" { // a connection each, gone before anybody looks
				limit, command = "2s", "for i in $(seq 20); do curl -sS -o /dev/null http://"+at+c.path+"; sleep 0.3; done"
			}
			p["network"], p["limits"] = c.network, doc{"idle_timeout": limit}
			r := l.wrap(t, launch{policy: p, flags: []string{"--quiet", "--result", file}, argv: []string{
				"sh", "-c", "unset no_proxy NO_PROXY; " + command,
			}})
			var o outcome
			must(t, json.Unmarshal([]byte(read(t, file)), &o))
			if o.Reason != c.reason || o.hits("idle_timeout") != map[string]int64{"exited": 0, "timeout": 1}[c.reason] {
				t.Errorf("got %+v: %v", o, r)
			}
		})
	}
}

// An ordinary user has limits where somebody has given him a subtree, and is
// refused by name where not.
func TestDelegation(t *testing.T) {
	needsSandbox(t)
	if os.Geteuid() != 0 {
		t.Log("only root can delegate")
		return
	}
	const uid = 1001
	dir, err := os.MkdirTemp("/home", "pinfold-delegation-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeTree(t, dir) })
	bin := dir + "/pinfold"
	if out, err := exec.CommandContext(t.Context(), "cp", built.pinfold, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := filepath.Base(dir)
	if !delegate(t, name, uid) {
		t.Log("no cgroup v1 to delegate here")
		return
	}
	for _, d := range []string{dir, dir + "/ws", dir + "/state"} {
		mkdir(t, d)
		if err := os.Chown(d, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/policy.json", `{"version": 1, "write": ["{workspace}"], "limits": {"memory": "64m", "pids": 30, "cpus": 1}}`, 0o644)
	run := func(flags ...string) string {
		args := append([]string{"wrap", "--quiet", "--workspace", dir + "/ws", "--state", dir + "/state", "--policy", dir + "/policy.json"}, flags...)
		cmd := exec.CommandContext(t.Context(), bin, append(args, "--", "python3", "-c", "x = bytearray(700 << 20)")...)
		cmd.Dir, cmd.Env = dir+"/ws", []string{"HOME=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%v %s", err, out)
	}
	if got := run(); !strings.Contains(got, "exit status 125") || !strings.Contains(got, "limit_unavailable") || !strings.Contains(got, "hint: ") {
		t.Errorf("without delegation: %s", got)
	}
	if got := run("--cgroup", "/"+name); !strings.Contains(got, "exit status 137") {
		t.Errorf("with delegation: %s", got)
	}
	if got := run("--cgroup", "/sys/fs/cgroup/memory/"+name); !strings.Contains(got, "exit status 137") {
		t.Errorf("with delegation, by directory: %s", got)
	}
}

// delegate makes a cgroup of version 1 in each hierarchy and gives it away.
func delegate(t *testing.T, name string, uid int) bool {
	t.Helper()
	for _, controller := range []string{"cpu", "cpuacct", "memory", "pids", "freezer"} {
		parent := filepath.Join("/sys/fs/cgroup", controller)
		if _, err := os.Stat(parent + "/tasks"); err != nil {
			return false
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Rmdir(dir) })
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprint(uid), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return true
}
