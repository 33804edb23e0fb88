package recover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/recover"
)

// refutedBy proves and wants one proof to fail.
func refutedBy(t *testing.T, c recover.Claim, want recover.Proof, why string) {
	t.Helper()
	v, err := recover.Prove(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if v.Adoptable || v.Proof != want || !strings.Contains(v.Why, why) {
		t.Errorf("got %+v, wanted %s to fail (%s)", v, want, why)
	}
}

func claim(r *run) recover.Claim {
	return recover.Claim{Record: r.record, Parent: r.parent.Process.Pid}
}

// replace writes a file of a record anew, with the mode that it had.
func replace(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := errors.Join(os.Remove(file), os.WriteFile(file, b, 0o400), os.Chmod(file, 0o400)); err != nil {
		t.Fatal(err)
	}
}

// TestTamperedPlan: a plan that was edited isn't the one that the root file
// knows; with that edited as well, it isn't the one that the owner knows.
func TestTamperedPlan(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	known := prove(t, r).Digest
	file := filepath.Join(r.record, "plan.json")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, file, bytes.Replace(before, []byte(`"read-only"`), []byte(`"read-write"`), 1))
	refutedBy(t, claim(r), recover.ProofRecord, "is of plan")
	restore := rewrite(t, r.record, func(root *plan.Root) {
		s, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		root.Digest, _ = p.Digest()
	})
	c := claim(r)
	c.Digest = known
	refutedBy(t, c, recover.ProofDigest, "not "+known)
	restore()
	replace(t, file, append(before, '\n'))
	refutedBy(t, claim(r), recover.ProofRecord, "canonical")
	replace(t, file, before)
	if v := prove(t, r); !v.Adoptable {
		t.Errorf("after all: %+v", v)
	}
}

// TestTamperedOlderPlan: the owner has launched anew since.
func TestTamperedOlderPlan(t *testing.T) {
	t.Parallel()
	older, newer := start(t, untilEOF), start(t, untilEOF+"; true")
	c := claim(older)
	c.Digest = prove(t, newer).Digest
	refutedBy(t, c, recover.ProofDigest, "not "+c.Digest)
}

// TestTamperedSwap: two records have changed places.
func TestTamperedSwap(t *testing.T) {
	t.Parallel()
	a, b := start(t, untilEOF), start(t, untilEOF)
	if err := unix.Renameat2(unix.AT_FDCWD, a.record, unix.AT_FDCWD, b.record, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	refutedBy(t, claim(a), recover.ProofOnlyRoot, "not the recorded root")
	c := claim(a)
	c.Parent = b.parent.Process.Pid // they belong together, at another place
	v, err := recover.Prove(t.Context(), c)
	if err != nil || !v.Adoptable {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestTamperedLink: neither the record nor a file in it may be a link, or have
// another name.
func TestTamperedLink(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	moved := r.record + "-moved"
	if err := errors.Join(os.Rename(r.record, moved), os.Symlink(moved, r.record)); err != nil {
		t.Fatal(err)
	}
	refutedBy(t, claim(r), recover.ProofRecord, "no directory")
	if err := errors.Join(os.Remove(r.record), os.Rename(moved, r.record)); err != nil {
		t.Fatal(err)
	}
	root, elsewhere := filepath.Join(r.record, "root"), filepath.Join(filepath.Dir(r.record), "root")
	if err := os.Link(root, elsewhere); err != nil {
		t.Fatal(err)
	}
	refutedBy(t, claim(r), recover.ProofRecord, "2 names")
	if err := errors.Join(os.Remove(root), os.Symlink(elsewhere, root)); err != nil {
		t.Fatal(err)
	}
	v, err := recover.Prove(t.Context(), claim(r))
	if err != nil || v.Adoptable || v.Proof != recover.ProofRecord {
		t.Errorf("%+v, %v", v, err)
	}
	if err := errors.Join(os.Remove(root), os.Rename(elsewhere, root), os.Chmod(r.record, 0o750)); err != nil {
		t.Fatal(err)
	}
	refutedBy(t, claim(r), recover.ProofRecord, "mode")
	if err := os.Chmod(r.record, 0o700); err != nil {
		t.Fatal(err)
	}
	if v := prove(t, r); !v.Adoptable {
		t.Errorf("after all: %+v", v)
	}
}

// TestTamperedMounts: the process is in a sandbox, but that of another launch.
func TestTamperedMounts(t *testing.T) {
	t.Parallel()
	a, b := start(t, untilEOF), start(t, untilEOF)
	mounts := rootOf(t, b.record).Mounts
	defer rewrite(t, a.record, func(root *plan.Root) { root.Mounts = mounts })()
	refutedBy(t, claim(a), recover.ProofMounts, "mounted")
}

// TestMendedMounts: a place that the supervisor has covered anew differs, and
// must be read-only.
func TestMendedMounts(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	for flag, want := range map[string]recover.Proof{"ro": "", "rw": recover.ProofMounts} {
		var place string
		restore := rewrite(t, r.record, func(root *plan.Root) {
			for i, line := range root.Mounts {
				at, err := strconv.QuotedPrefix(line)
				if err == nil && strings.Contains(line[strings.LastIndexByte(line, ' '):], flag) && !strings.HasPrefix(root.Mounts[min(i+1, len(root.Mounts)-1)], at+" ") && (i == 0 || !strings.HasPrefix(root.Mounts[i-1], at+" ")) {
					place, _ = strconv.Unquote(at)
					root.Mounts[i] = at + ` 0:999999 "/" tmpfs ro`
					return
				}
			}
		})
		refutedBy(t, claim(r), recover.ProofMounts, "mounted since")
		journal, err := os.ReadFile(filepath.Join(r.record, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		step, err := json.Marshal(plan.Step{Time: time.Now(), Action: "mended", Kind: "mount", Path: place})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(r.record, "journal")
		if err := os.WriteFile(file, append(journal, append(step, '\n')...), 0o600); err != nil {
			t.Fatal(err)
		}
		if v := prove(t, r); v.Proof != want || v.Adoptable != (want == "") {
			t.Errorf("%s at %q: %+v", flag, place, v)
		}
		restore()
		if err := os.WriteFile(file, journal, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fakeBwrap is a bubblewrap that runs a script instead, in a directory for the
// PATH.
func fakeBwrap(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo bubblewrap 0.8.0; exit; fi\n" + script + "\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "bwrap"), []byte(text), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lookAlike is pinfold itself with the argv of a launch, waiting for a
// bubblewrap that builds no such boundary, and a record that says it does.
type lookAlike struct {
	record     string
	supervisor *exec.Cmd
	chain      []int // bubblewrap, pid 1, command
}

// pretend starts one. Its parent is the test, which has no other child: so no
// such tests run in parallel.
func pretend(t *testing.T, script string) *lookAlike {
	t.Helper()
	dir := t.TempDir()
	l := &lookAlike{record: filepath.Join(dir, "record")}
	ws := filepath.Join(dir, "ws")
	if err := errors.Join(os.Mkdir(ws, 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), "wrap", "--quiet",
		"--workspace", ws, "--state", filepath.Join(dir, "state"), "--record", l.record, "--", "sleep", "1000")
	cmd.Dir, cmd.Env = ws, append(os.Environ(), "PATH="+fakeBwrap(t, script)+":"+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.supervisor = cmd
	t.Cleanup(func() {
		// All of it is known before any of it ends: who dies with its parent
		// would leave children that nobody finds any more.
		for _, pid := range descendants(cmd.Process.Pid, l.chain) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = cmd.Wait()
	})
	l.chain = chainBelow(t, cmd.Process.Pid)
	l.forge(t)
	return l
}

// chainBelow waits for a process to have a child that has one that has one.
// Before that bubblewrap is asked for its version.
func chainBelow(t *testing.T, pid int) []int {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var chain []int
		for at := firstParent(pid); at > 0 && len(chain) < 3; at = firstParent(at) {
			chain = append(chain, at)
		}
		if len(chain) == 3 {
			return chain
		}
	}
	t.Fatalf("process %d has no chain of three below it", pid)
	return nil
}

// firstParent is the first child that has one itself, or the first.
func firstParent(pid int) int {
	for _, child := range childrenOf(pid) {
		if firstChild(child) > 0 {
			return child
		}
	}
	return firstChild(pid)
}

func firstChild(pid int) int {
	for _, child := range childrenOf(pid) {
		return child
	}
	return 0
}

func childrenOf(pid int) []int {
	var out []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, s := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(s)
			out = append(out, n)
		}
	}
	return out
}

// descendants are a process, others that are known, and all below them.
func descendants(pid int, known []int) []int {
	all := append([]int{pid}, known...)
	for i := 0; i < len(all); i++ {
		for _, child := range childrenOf(all[i]) {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// forge writes the root file that a launch of this shape would have.
func (l *lookAlike) forge(t *testing.T) {
	t.Helper()
	s, err := plan.ReadRecord(l.record)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	var exe unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/exe", l.supervisor.Process.Pid), &exe); err != nil {
		t.Fatal(err)
	}
	root := plan.Root{
		Digest: s.Digest, BootID: strings.TrimSpace(string(boot)), Owner: os.Geteuid(),
		Supervisor: recorded(t, l.supervisor.Process.Pid), Exe: plan.File{Dev: exe.Dev, Ino: exe.Ino},
		Bwrap: recorded(t, l.chain[0]), Init: recorded(t, l.chain[1]), Command: recorded(t, l.chain[2]),
		Namespaces: map[string]uint64{}, Filters: map[string]int{"init": 1, "command": 1},
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", l.chain[2], name), &st); err != nil {
			t.Fatal(err)
		}
		root.Namespaces[name] = st.Ino
	}
	b, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.record, "root"), b, 0o400); err != nil {
		t.Fatal(err)
	}
}

// recorded is a process as a root file names it.
func recorded(t *testing.T, pid int) plan.Process {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := strconv.ParseUint(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Process{PID: pid, StartTicks: ticks}
}

// TestLookAlike: the same argv and the same executable, under the parent, with
// the record in its hands, and everything but the boundary.
func TestLookAlike(t *testing.T) {
	const chain = `-- sh -c 'sleep 1000; true'`
	const bwrap = "exec /usr/bin/bwrap --ro-bind / / --proc /proc --dev /dev --die-with-parent "
	for name, c := range map[string]struct {
		script string
		want   recover.Proof
		why    string
		root   bool
	}{
		"outside":            {`sh -c 'sleep 1000; true'; true`, recover.ProofInit, "not the first of a pid namespace", false},
		"the host's net":     {bwrap + "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup " + chain, recover.ProofNamespaces, "own net namespace", false},
		"the host's user":    {bwrap + "--unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup " + chain, recover.ProofNamespaces, "own user namespace", true},
		"only pid shared":    {sharing("pid"), recover.ProofInit, "not the first of a pid namespace", false},
		"only net shared":    {sharing("net"), recover.ProofNamespaces, "own net namespace", false},
		"only mounts shared": {sharing("mnt"), recover.ProofNamespaces, "own mnt namespace", false},
		"only user shared":   {sharing("user"), recover.ProofNamespaces, "own user namespace", true},
		"one beside":         {"sleep 1000 & " + bwrap + "--unshare-all --unshare-user --cap-drop ALL " + chain, recover.ProofInit, "run 2 processes", false},
		"capabilities":       {bwrap + "--unshare-all --unshare-user --cap-add CAP_NET_RAW " + chain, recover.ProofPrivileges, "has capabilities", false},
		"in a sandbox":       {"exec unshare --user --map-root-user " + strings.TrimPrefix(bwrap, "exec ") + "--unshare-all --unshare-user --cap-drop ALL " + chain, recover.ProofBubblewrap, "in another user namespace than the caller", false},
		"no filter":          {bwrap + "--unshare-all --unshare-user --cap-drop ALL " + chain, recover.ProofPrivileges, "no seccomp filter", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can do without a user namespace")
			}
			if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
				t.Skip(err)
			}
			l := pretend(t, c.script)
			refutedBy(t, recover.Claim{Record: l.record, Parent: os.Getpid()}, c.want, c.why)
		})
	}
}

// inPidNamespace says that the test runs in a pid namespace of its own.
const inPidNamespace = "PINFOLD_TEST_PIDNS"

// TestReusedPid: under the right parent, by the recorded pid, runs a process
// that was started later, of the same program. The kernel is made to give the
// pid out again.
func TestReusedPid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can: in a user namespace of its own everybody's directories belong to strangers, and the guard refuses them")
	}
	if os.Getenv(inPidNamespace) == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
			os.Args[0], "-test.run", "^TestReusedPid$", "-test.v")
		cmd.Env = append(os.Environ(), inPidNamespace+"=1", "PINFOLD_BIN="+binary(t))
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestReusedPid")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, c := range []struct {
		name string
		end  func(*run) error
		want recover.Proof
	}{
		{"killed", func(r *run) error { return r.parent.Process.Kill() }, recover.ProofRoot},
		{"exited", func(r *run) error { r.stdin(); return nil }, recover.ProofOnlyRoot},
	} {
		r := direct(t)
		pid := r.parent.Process.Pid
		if err := errors.Join(c.end(r), ignoreExit(r.parent.Wait())); err != nil {
			t.Fatal(err)
		}
		other := again(t, pid)
		untilRefuted(t, r.record, c.want)
		if err := errors.Join(other.Process.Kill(), ignoreExit(other.Wait())); err != nil {
			t.Fatal(err)
		}
	}
}

// untilRefuted lets what is dying die. It is adoptable at no moment.
func untilRefuted(t *testing.T, record string, want recover.Proof) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		v, err := recover.Prove(t.Context(), recover.Claim{Record: record, Parent: os.Getpid()})
		switch {
		case err == nil && v.Adoptable:
			t.Fatalf("adopted: %+v", v)
		case err == nil && v.Proof == want:
			return
		case time.Now().After(deadline):
			t.Fatalf("got %+v, %v, wanted %s to fail", v, err, want)
		}
		time.Sleep(5 * time.Millisecond) // another process's death has no event for a stranger
	}
}

// direct is a launch whose parent is the test.
func direct(t *testing.T) *run {
	t.Helper()
	r := startUnder(t, `exec "$@"`, untilEOF)
	v, err := recover.Prove(t.Context(), recover.Claim{Record: r.record, Parent: os.Getpid()})
	if err != nil || !v.Adoptable {
		t.Fatalf("control: %+v, %v", v, err)
	}
	return r
}

// again starts the program, with something to wait for, until it has the pid.
// Threads take pids too.
func again(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	rec := pinned(t)
	t.Cleanup(func() { _ = rec.Close() })
	for range 200 {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), "wait", "--record", rec.Path())
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(itoa(pid-1)), 0); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			return cmd
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Fatalf("the pid %d was never given out again", pid)
	return nil
}
