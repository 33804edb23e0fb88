package recover_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/recover"
)

// TestReapStranded: a bubblewrap that is killed while its child still waits
// for it leaves one behind, which is cleared; while it lives nothing is.
func TestReapStranded(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip(err)
	}
	args, err := os.CreateTemp(t.TempDir(), "args")
	if err != nil {
		t.Fatal(err)
	}
	never, end, err := os.Pipe() // nothing is ever written
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	defer never.Close()
	defer end.Close()
	text := []string{"--unshare-user", "--unshare-pid", "--die-with-parent", "--userns-block-fd", "4", "--info-fd", "5", "--ro-bind", "/", "/"}
	for _, arg := range text {
		if _, err := args.WriteString(arg + "\x00"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := args.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bwrap, "--args", "3", "--", "/dev/.pinfold")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{args, never, null}, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := childOf(t, cmd.Process.Pid)
	state := filepath.Join(t.TempDir(), "state")
	if cleared := processes(t, recover.ReapOptions{State: state}); slices.Contains(cleared, itoa(child)) {
		t.Fatalf("the child of a living bubblewrap was cleared: %v", cleared)
	}
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(child, 0); err != nil || zombie(child) {
		t.Skip("this bubblewrap leaves none behind")
	}
	if cleared := processes(t, recover.ReapOptions{State: state, DryRun: true}); !slices.Contains(cleared, itoa(child)) || zombie(child) {
		t.Errorf("dry run: %v, wanted %d, which lives", cleared, child)
	}
	if cleared := processes(t, recover.ReapOptions{State: state}); !slices.Contains(cleared, itoa(child)) || !ended(child) {
		t.Errorf("cleared %v, wanted %d", cleared, child)
	}
}

func childOf(t *testing.T, pid int) int {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if child := firstChild(pid); child > 0 {
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// processes are those that were cleared.
func processes(t *testing.T, o recover.ReapOptions) []string {
	t.Helper()
	done, err := recover.Reap(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range done.Cleared {
		if c.Kind == recover.KindProcess {
			out = append(out, c.Path)
		}
	}
	return out
}

// TestReapSparesWhatIsLaidOut: a bubblewrap whose supervisor is killed goes on
// laying its sandbox out for a moment, and makes anew what is missing then. So
// the mount points stay until it has gone.
func TestReapSparesWhatIsLaidOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ws, state, record, policy := filepath.Join(dir, "ws"), filepath.Join(dir, "state"), filepath.Join(dir, "record"), filepath.Join(dir, "p.json")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(ws, 0o700),
		os.WriteFile(policy, []byte(`{"write": ["{workspace}"], "read": {"deny": ["{workspace}/never"]}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary(t), "wrap", "--quiet", "--policy", policy, "--workspace", ws, "--state", state, "--record", record, "--", "true")
	cmd.Dir, cmd.Env = ws, append(os.Environ(), "PATH="+fakeBwrap(t, "exec sleep 1000")+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !isSleep(firstChild(cmd.Process.Pid)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("bubblewrap was never started")
		}
	}
	bwrap := firstChild(cmd.Process.Pid)
	kill(t, cmd.Process.Pid)
	_ = cmd.Wait()
	o := recover.ReapOptions{State: state, Records: []string{record}}
	if done := reap(t, o); kinds(done)[recover.KindMountPoint] != 0 {
		t.Errorf("under a living bubblewrap: %+v", done)
	}
	kill(t, bwrap)
	if !ended(bwrap) {
		t.Fatal("it lives on")
	}
	if done := reap(t, o); kinds(done)[recover.KindMountPoint] != 1 {
		t.Errorf("afterwards: %+v", done)
	}
	if left, err := filepath.Glob(state + "/covers/*.*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func isSleep(pid int) bool {
	b, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
	return err == nil && string(b) == "sleep\x001000\x00"
}

func kinds(done recover.Reaped) map[string]int {
	out := map[string]int{}
	for _, c := range done.Cleared {
		out[c.Kind]++
	}
	return out
}
