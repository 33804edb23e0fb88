package recover

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/seatbelt"
)

// seatExecutable is the program of a process, for trying the proofs of the
// other system here.
func seatExecutable(pid int) (plan.File, string, error) {
	link := fmt.Sprintf("/proc/%d/exe", pid)
	path, err := os.Readlink(link)
	if err != nil {
		return plan.File{}, "", fmt.Errorf("cannot learn the program of process %d: %w", pid, err)
	}
	file, err := seatbelt.FileOf(link)
	return file, path, err
}

// seatLab is a record of a launch of sandbox-exec's: a parent, which runs a
// supervisor, which runs a command, all of them shells.
type seatLab struct {
	t      *testing.T
	record *plan.Record
	parent *exec.Cmd
	root   plan.Root
}

func newSeatLab(t *testing.T, script string) *seatLab {
	t.Helper()
	rec, err := plan.CreateRecord(filepath.Join(t.TempDir(), "record"))
	check(t, err)
	l := &seatLab{t: t, record: rec}
	t.Cleanup(func() { rec.Close() })
	digest, err := rec.Pin(&plan.Plan{Version: plan.Version, Backend: "seatbelt", Command: []string{"sleep"}})
	check(t, err)
	l.root = plan.Root{Digest: digest, Started: time.Now(), Owner: os.Getuid()}
	if script == "" {
		return l
	}
	time.Sleep(20 * time.Millisecond) // start times count hundredths of a second
	l.parent = exec.Command("sh", "-c", `sh -c '`+script+`' & echo $!; wait; sleep 60`)
	l.parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := l.parent.StdoutPipe()
	check(t, err)
	check(t, l.parent.Start())
	t.Cleanup(func() { _ = unix.Kill(-l.parent.Process.Pid, unix.SIGKILL); _ = l.parent.Wait() })
	r := bufio.NewReader(out)
	l.root.Supervisor = l.read(r)
	l.root.Command = l.read(r)
	// Two shells speak, in any order.
	if p, _, _ := seatbelt.LookUp(l.root.Supervisor.PID); p.PPID != l.parent.Process.Pid {
		l.root.Supervisor, l.root.Command = l.root.Command, l.root.Supervisor
	}
	l.root.Exe, _, err = seatExecutable(l.root.Supervisor.PID)
	check(t, err)
	l.root.BootID, err = seatbelt.BootID()
	check(t, err)
	return l
}

// supervised starts a command and waits for it; its supervisor writes nothing.
const supervised = `setsid sleep 60 & echo $!; wait; true`

func (l *seatLab) read(r *bufio.Reader) plan.Process {
	l.t.Helper()
	line, err := r.ReadString('\n')
	check(l.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	check(l.t, err)
	p, ok, err := seatbelt.LookUp(pid)
	if err != nil || !ok {
		l.t.Fatalf("process %d: %v", pid, err)
	}
	return plan.Process{PID: pid, StartTicks: p.Start}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *seatLab) prove(c Claim) Verdict {
	l.t.Helper()
	c.Record = l.record.Path()
	if c.Parent == 0 {
		c.Parent = l.parent.Process.Pid
	}
	v, err := proveSeat(l.t.Context(), c, seatExecutable)
	check(l.t, err)
	return v
}

func TestSeatAdopt(t *testing.T) {
	t.Parallel()
	l := newSeatLab(t, supervised)
	check(t, l.record.WriteRoot(l.root))
	v := l.prove(Claim{Digest: l.root.Digest})
	if !v.Adoptable || v.State != Running || v.Processes != 1 || len(v.Held) != 10 || len(v.NotProven) != 4 || v.Command != l.root.Command.PID {
		t.Errorf("got %+v", v)
	}
	if v := l.prove(Claim{Digest: "sha256:0"}); v.Proof != ProofDigest {
		t.Errorf("another digest: %+v", v)
	}
	if v := l.prove(Claim{Parent: os.Getpid()}); v.Proof != ProofOnlyRoot {
		t.Errorf("another parent: %+v", v)
	}
	if v := l.prove(Claim{Parent: 1 << 30}); v.Proof != ProofParent {
		t.Errorf("no parent: %+v", v)
	}
	check(t, l.record.Close())
	if v := l.prove(Claim{}); v.Proof != ProofHoldsRecord {
		t.Errorf("nobody holds it: %+v", v)
	}
}

func TestSeatRefutes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*plan.Root)
		proof  Proof
	}{
		"boot":          {func(r *plan.Root) { r.BootID = "another" }, ProofBoot},
		"root's start":  {func(r *plan.Root) { r.Supervisor.StartTicks++ }, ProofOnlyRoot},
		"owner":         {func(r *plan.Root) { r.Owner++ }, ProofRoot},
		"executable":    {func(r *plan.Root) { r.Exe.Ino++ }, ProofExecutable},
		"command":       {func(r *plan.Root) { r.Command.StartTicks++ }, ProofCommand},
		"order":         {func(r *plan.Root) { r.Command.StartTicks = 1 }, ProofAfterPin},
		"other command": {func(r *plan.Root) { r.Command.PID = r.Supervisor.PID }, ProofCommand},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newSeatLab(t, supervised)
			c.change(&l.root)
			check(t, l.record.WriteRoot(l.root))
			v := l.prove(Claim{})
			if v.Adoptable || v.Proof != c.proof || v.Why == "" {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestSeatCompany(t *testing.T) {
	t.Parallel()
	l := newSeatLab(t, `sleep 61 & `+supervised)
	check(t, l.record.WriteRoot(l.root))
	if v := l.prove(Claim{}); v.Proof != ProofCommand || !strings.Contains(v.Why, "isn't recorded") {
		t.Errorf("got %+v", v)
	}
}

func TestSeatEnded(t *testing.T) {
	t.Parallel()
	l := newSeatLab(t, "")
	if _, err := proveSeat(t.Context(), Claim{Record: l.record.Path(), Parent: os.Getpid()}, seatExecutable); !errors.Is(err, ErrUnclear) {
		t.Errorf("just starting: %v", err)
	}
	check(t, l.record.Close())
	if v := l.prove(Claim{Parent: os.Getpid()}); v.Proof != "" && v.Proof != ProofOnlyRoot {
		t.Errorf("nothing started: %+v", v)
	}
	l = newSeatLab(t, supervised)
	check(t, l.record.WriteRoot(l.root))
	check(t, l.record.WriteExit(plan.Exit{Code: 3, Reason: "exited"}))
	if v := l.prove(Claim{}); v.Proof != ProofGone {
		t.Errorf("an exit, and the command lives: %+v", v)
	}
	r, err := openSeat(l.record.Path())
	check(t, err)
	if e, err := r.Wait(t.Context()); err != nil || e.Code != 3 || r.State() != Exited {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestSeatStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, sent string }{
		"term": {supervised, plan.StopTerm},
		"kill": {`setsid sh -c "trap \"\" TERM; while :; do sleep 0.1; done" & echo $!; wait; true`, plan.StopKill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newSeatLab(t, c.script)
			check(t, l.record.WriteRoot(l.root))
			check(t, l.record.Close())
			r, err := openSeatStarted(t.Context(), l.record.Path())
			check(t, err)
			if i := r.Info(); i.State != Running || i.PID != l.root.Command.PID {
				t.Errorf("got %+v", i)
			}
			time.Sleep(50 * time.Millisecond) // the shell sets its trap
			done, err := r.Stop(t.Context(), 300*time.Millisecond)
			if err != nil || done.Sent != c.sent || done.SupervisorKilled || done.Exit != nil {
				t.Errorf("got %+v, %v", done, err)
			}
			if alive, err := isAlive(l.root.Command); alive || err != nil {
				t.Errorf("the command lives: %v", err)
			}
			if err := r.Signal(unix.SIGTERM); !errors.Is(err, ErrEnded) {
				t.Errorf("got %v", err)
			}
			if _, err := r.Wait(t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("got %v", err)
			}
		})
	}
}
