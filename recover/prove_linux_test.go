package recover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold/plan"
	"pinfold/recover"
)

// binary is $PINFOLD_BIN, or pinfold as `make build` leaves it.
func binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("PINFOLD_BIN"); path != "" {
		return path
	}
	path, err := filepath.Abs("../bin/pinfold")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("pinfold is not built: run make build (%v)", err)
	}
	return path
}

// run is a launch under a parent that outlives the test's own interest in it,
// as a daemon's wrapper does.
type run struct {
	record string
	state  string
	ws     string
	parent *exec.Cmd
	stdin  func()
}

// start runs a shell that runs pinfold and waits, and returns once the
// command inside has said that it runs.
func start(t testing.TB, script string) *run {
	t.Helper()
	return startUnder(t, `"$@"; exit $?`, script)
}

// startUnder is start with another parent, a shell script whose arguments are
// pinfold's command line, and with files in the workspace.
func startUnder(t testing.TB, parent, script string, files ...string) *run {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ws, state := filepath.Join(dir, "ws"), filepath.Join(dir, "state")
	for _, d := range []string{ws, state} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(ws, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{record: filepath.Join(dir, "record"), state: state, ws: ws}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", parent, "parent",
		binary(t), "wrap", "--quiet", "--workspace", ws, "--state", state, "--record", r.record, "--", "/bin/sh", "-c", script)
	cmd.Dir = ws
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.parent, r.stdin = cmd, func() { _ = in.Close() }
	t.Cleanup(func() {
		r.stdin()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "up" {
		t.Fatalf("the command didn't start: %q, %v", line, err)
	}
	return r
}

// untilEOF is a command that says so and runs until its input ends.
const untilEOF = "echo up; cat >/dev/null"

func prove(t testing.TB, r *run) recover.Verdict {
	t.Helper()
	v, err := recover.Prove(t.Context(), recover.Claim{Record: r.record, Parent: r.parent.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAdoptRunning(t *testing.T) {
	t.Parallel()
	r := start(t, "sleep 1000 & sleep 1000 & "+untilEOF)
	v := prove(t, r)
	if !v.Adoptable || v.State != recover.Running {
		t.Fatalf("%+v", v)
	}
	if v.Processes < 4 {
		t.Errorf("saw %d processes, wanted pid 1, the shell, two sleeps and cat", v.Processes)
	}
	if _, err := recover.Prove(t.Context(), recover.Claim{Record: r.record, Parent: r.parent.Process.Pid, Digest: v.Digest}); err != nil {
		t.Error(err)
	}
}

func TestAdoptExited(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF+"; exit 7")
	r.stdin()
	if err := r.parent.Wait(); err == nil {
		t.Fatal("exit 7 was lost")
	}
	v := prove(t, r)
	if !v.Adoptable || v.State != recover.Exited || v.Exit == nil || v.Exit.Code != 7 {
		t.Fatalf("%+v", v)
	}
}

// TestRefuted breaks one proof at a time.
func TestRefuted(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	good := prove(t, r)
	if !good.Adoptable {
		t.Fatalf("control: %+v", good)
	}
	claim := func(mutate func(*plan.Root), change func(*recover.Claim)) (recover.Verdict, error) {
		c := recover.Claim{Record: r.record, Parent: r.parent.Process.Pid}
		if mutate != nil {
			c.Record = forge(t, r.record, mutate)
		}
		if change != nil {
			change(&c)
		}
		return recover.Prove(t.Context(), c)
	}
	for name, c := range map[string]struct {
		mutate func(*plan.Root)
		change func(*recover.Claim)
		want   recover.Proof
	}{
		"another digest":  {nil, func(c *recover.Claim) { c.Digest = "sha256:0" }, recover.ProofDigest},
		"no record":       {nil, func(c *recover.Claim) { c.Record += "x" }, recover.ProofRecord},
		"another boot":    {func(r *plan.Root) { r.BootID = "x" }, nil, recover.ProofBoot},
		"no parent":       {nil, func(c *recover.Claim) { c.Parent = 0 }, recover.ProofParent},
		"another parent":  {nil, func(c *recover.Claim) { c.Parent = os.Getpid() }, recover.ProofOnlyRoot},
		"reused pid":      {func(r *plan.Root) { r.Supervisor.StartTicks-- }, nil, recover.ProofOnlyRoot},
		"another owner":   {func(r *plan.Root) { r.Owner++ }, nil, recover.ProofRoot},
		"another program": {func(r *plan.Root) { r.Exe.Ino++ }, nil, recover.ProofExecutable},
		"a copied record": {func(*plan.Root) {}, nil, recover.ProofHoldsRecord},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := claim(c.mutate, c.change)
			if err != nil {
				t.Fatal(err)
			}
			if v.Adoptable || v.Proof != c.want {
				t.Errorf("got %+v, want %s to fail", v, c.want)
			}
		})
	}
	// Those below are tried after holds_record, so the record itself is
	// changed and put back.
	for name, c := range map[string]struct {
		mutate func(*plan.Root)
		want   recover.Proof
	}{
		"older than the plan":  {func(r *plan.Root) { r.Pinned = r.Bwrap.StartTicks + 1 }, recover.ProofAfterPin},
		"another bubblewrap":   {func(r *plan.Root) { r.Bwrap.PID++ }, recover.ProofBubblewrap},
		"another pid 1":        {func(r *plan.Root) { r.Init.PID++ }, recover.ProofInit},
		"another namespace":    {func(r *plan.Root) { r.Namespaces["net"]++ }, recover.ProofNamespaces},
		"a namespace unnamed":  {func(r *plan.Root) { delete(r.Namespaces, "mnt") }, recover.ProofNamespaces},
		"fewer filters":        {func(r *plan.Root) { r.Filters["command"]++ }, recover.ProofPrivileges},
		"another pid 1 filter": {func(r *plan.Root) { r.Filters["init"]-- }, recover.ProofPrivileges},
		"other users":          {func(r *plan.Root) { r.UIDMap = "7 7 1" }, recover.ProofMaps},
		"other groups":         {func(r *plan.Root) { r.GIDMap = "7 7 1" }, recover.ProofMaps},
		"no mount table":       {func(r *plan.Root) { r.Mounts = nil }, recover.ProofMounts},
		"one mount gone":       {func(r *plan.Root) { r.Mounts = append(r.Mounts, `"/proc/sys" 0:1 "/" tmpfs ro`) }, recover.ProofMounts},
		"one mount more":       {func(r *plan.Root) { r.Mounts = r.Mounts[1:] }, recover.ProofMounts},
	} {
		t.Run(name, func(t *testing.T) {
			restore := rewrite(t, r.record, c.mutate)
			defer restore()
			v := prove(t, r)
			if v.Adoptable || v.Proof != c.want {
				t.Errorf("got %+v, want %s to fail", v, c.want)
			}
		})
	}
	if v := prove(t, r); !v.Adoptable {
		t.Errorf("after all: %+v", v)
	}
}

// rewrite changes the root file in place and returns what undoes it.
func rewrite(t *testing.T, record string, mutate func(*plan.Root)) func() {
	t.Helper()
	file := filepath.Join(record, "root")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root plan.Root
	if err := json.Unmarshal(before, &root); err != nil {
		t.Fatal(err)
	}
	mutate(&root)
	after, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		if err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, b, 0o600), os.Chmod(file, 0o400)); err != nil {
			t.Fatal(err)
		}
	}
	put(after)
	return func() { put(before) }
}

// forge copies a record and changes its root file.
func forge(t *testing.T, record string, mutate func(*plan.Root)) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "forged")
	if err := os.CopyFS(to, os.DirFS(record)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plan.json", "root"} {
		if err := os.Chmod(filepath.Join(to, name), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "journal")); err == nil {
		if err := os.Chmod(filepath.Join(to, "journal"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, to, mutate)
	return to
}

// TestOneMore: a second process under the parent, in the host's namespaces.
func TestOneMore(t *testing.T) {
	t.Parallel()
	r := startUnder(t, `sleep 1000 & "$@"; code=$?; kill $!; exit $code`, untilEOF)
	if v := prove(t, r); v.Adoptable || v.Proof != recover.ProofOnlyRoot {
		t.Errorf("%+v", v)
	}
}

// TestKilled: a supervisor that was killed leaves nothing, and nothing to
// adopt.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	v := prove(t, r)
	p, err := os.FindProcess(v.Root)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil || !ended(v.Root) {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		v, err := recover.Prove(t.Context(), recover.Claim{Record: r.record, Parent: r.parent.Process.Pid})
		if err == nil && v.State == recover.Lost && !v.Adoptable {
			return
		}
		if err == nil && v.Adoptable {
			t.Fatalf("adopted: %+v", v)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v %v", v, err)
		}
		time.Sleep(10 * time.Millisecond) // another process's death has no event for a stranger
	}
}
