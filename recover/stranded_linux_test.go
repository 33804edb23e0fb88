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
