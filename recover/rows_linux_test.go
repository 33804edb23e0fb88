package recover_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/recover"
)

// opened opens the record of a run.
func opened(t *testing.T, record string) *recover.Run {
	t.Helper()
	r, err := recover.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// soon bounds what waits for processes.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// rootOf is the root file.
func rootOf(t *testing.T, record string) *plan.Root {
	t.Helper()
	s, err := plan.ReadRecord(record)
	if err != nil {
		t.Fatal(err)
	}
	return s.Root
}

// idle is a process that runs nothing below it.
func idle(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// pinned is a record of a launch that has only been planned.
func pinned(t *testing.T) *plan.Record {
	t.Helper()
	rec, err := plan.CreateRecord(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Pin(&plan.Plan{Version: plan.Version, Backend: "bwrap", Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestRowNothingYet: a parent that runs nothing has left nothing outside.
func TestRowNothingYet(t *testing.T) {
	t.Parallel()
	rec := pinned(t)
	defer rec.Close()
	v, err := recover.Prove(t.Context(), recover.Claim{Record: rec.Path(), Parent: idle(t).Process.Pid})
	if err != nil || !v.Adoptable || v.State != recover.NotStarted {
		t.Fatalf("%+v, %v", v, err)
	}
	busy := idle(t)
	v, err = recover.Prove(t.Context(), recover.Claim{Record: rec.Path(), Parent: os.Getpid()})
	if err != nil || v.Adoptable || v.Proof != recover.ProofOnlyRoot {
		t.Errorf("beside process %d: %+v, %v", busy.Process.Pid, v, err)
	}
}

// TestAnothersParent: what runs as somebody else isn't the caller's to ask
// about, unless that is root.
func TestAnothersParent(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	c := recover.Claim{Record: r.record, Parent: 1}
	want, why := recover.ProofParent, "the parent 1 runs as user 0"
	if os.Geteuid() == 0 {
		want, why = recover.ProofOnlyRoot, "below" // one process or several
	}
	refutedBy(t, c, want, why)
}

// TestRowNoSandbox: a launch that had none is no sandbox's, whatever its parent
// runs.
func TestRowNoSandbox(t *testing.T) {
	t.Parallel()
	rec, err := plan.CreateRecord(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if _, err := rec.Pin(&plan.Plan{Version: plan.Version, Backend: "none", Command: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	refutedBy(t, recover.Claim{Record: rec.Path(), Parent: idle(t).Process.Pid}, recover.ProofDigest, `for "none"`)
}

// TestRowParentGone: the root lives, its owner's wrapper doesn't.
func TestRowParentGone(t *testing.T) {
	t.Parallel()
	r := start(t, "echo up; exec sleep 1000") // its input ends with the parent
	if err := errors.Join(r.parent.Process.Kill(), ignoreExit(r.parent.Wait())); err != nil {
		t.Fatal(err)
	}
	v := prove(t, r)
	if v.Adoptable || v.Proof != recover.ProofParent || v.Fix != "pinfold stop --record "+r.record {
		t.Fatalf("%+v", v)
	}
	run := opened(t, r.record)
	if run.State() != recover.Running {
		t.Fatalf("state %s", run.State())
	}
	done, err := run.Stop(soon(t), 10*time.Second)
	if err != nil || done.Sent != plan.StopTerm || done.Exit == nil || done.Exit.Code != 128+15 || done.Exit.Stop != plan.StopTerm {
		t.Errorf("%+v %+v, %v", done, done.Exit, err)
	}
	nothingLeft(t, r.record)
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// nothingLeft: every process that the root file names has gone.
func nothingLeft(t *testing.T, record string) {
	t.Helper()
	root := rootOf(t, record)
	for name, p := range map[string]plan.Process{"supervisor": root.Supervisor, "bwrap": root.Bwrap, "init": root.Init, "command": root.Command} {
		if !ended(p.PID) {
			t.Errorf("the %s, process %d, still runs", name, p.PID)
		}
	}
}

// ended waits for a process that is on its way out: a supervisor writes the
// exit before it ends itself.
func ended(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} // pidfd_open(2)
	for {
		n, err := unix.Poll(poll, 10_000)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 1
		}
	}
}

func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// TestRowAnotherBoot: nothing of it runs, and what was left is reaped.
func TestRowAnotherBoot(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	kill(t, rootOf(t, r.record).Supervisor.PID)
	_ = r.parent.Wait()
	rewrite(t, r.record, func(root *plan.Root) { root.BootID = "another" })
	v := prove(t, r)
	if v.Adoptable || v.Proof != recover.ProofBoot || v.Fix != "pinfold reap" {
		t.Errorf("%+v", v)
	}
	if run := opened(t, r.record); run.State() != recover.Lost {
		t.Errorf("state %s, wanted lost", run.State())
	}
	if left, _ := os.ReadDir(filepath.Join(r.state, "run")); len(left) != 1 {
		t.Fatalf("%d run directories, wanted one to be reaped", len(left))
	}
	done := reap(t, recover.ReapOptions{State: r.state, Records: []string{r.record}, DryRun: true})
	if len(done.Cleared) != 1 || done.Cleared[0].Kind != recover.KindDirectory {
		t.Fatalf("%+v", done)
	}
	again := reap(t, recover.ReapOptions{State: r.state, Records: []string{r.record}})
	if len(again.Cleared) != 1 || again.Cleared[0] != done.Cleared[0] {
		t.Errorf("%+v", again)
	}
	if left, _ := os.ReadDir(filepath.Join(r.state, "run")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// reap leaves out cgroups and processes, which belong to the machine: anybody's
// killed launch may have left some.
func reap(t *testing.T, o recover.ReapOptions) recover.Reaped {
	t.Helper()
	done, err := recover.Reap(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	done.Cleared = slices.DeleteFunc(done.Cleared, func(c recover.Cleared) bool { return c.Kind == recover.KindCgroup || c.Kind == recover.KindProcess })
	return done
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestReapSparesTheLiving: neither records nor directories of a launch that
// runs, however old.
func TestReapSparesTheLiving(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	done := reap(t, recover.ReapOptions{State: r.state, Records: []string{r.record}, OlderThan: 1})
	if len(done.Cleared) != 0 || len(done.Living) != 1 {
		t.Errorf("%+v", done)
	}
	if v := prove(t, r); !v.Adoptable {
		t.Errorf("%+v", v)
	}
}

// TestWaitAndSignal is what an adopter does, which is no parent.
func TestWaitAndSignal(t *testing.T) {
	t.Parallel()
	r := start(t, `trap 'exit 4' USR1; echo up; while :; do sleep 0.05; done`)
	run := opened(t, r.record)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, wanted that it goes on", err)
	}
	if err := run.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait(soon(t))
	if err != nil || exit.Code != 4 || exit.Reason != "exited" {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := run.Signal(unix.SIGUSR1); !errors.Is(err, recover.ErrEnded) {
		t.Errorf("got %v, wanted that it has ended", err)
	}
}

// TestWaitForTheKilled: a supervisor that was killed recorded nothing.
func TestWaitForTheKilled(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	run := opened(t, r.record)
	kill(t, rootOf(t, r.record).Supervisor.PID)
	if _, err := run.Wait(soon(t)); !errors.Is(err, recover.ErrLost) {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, r.record)
}

// TestStopStopped: neither a command that is stopped nor a supervisor that is
// can sit a stop out.
func TestStopStopped(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	root := rootOf(t, r.record)
	for _, pid := range []int{root.Supervisor.PID, root.Command.PID} {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	run := opened(t, r.record)
	done, err := run.Stop(soon(t), 50*time.Millisecond)
	if err != nil || done.Sent != plan.StopKill || !done.SupervisorKilled {
		t.Errorf("%+v, %v", done, err)
	}
	nothingLeft(t, r.record)
}

// TestOpenStarted waits for a launch that begins, and sees one that never
// will.
func TestOpenStarted(t *testing.T) {
	t.Parallel()
	rec := pinned(t)
	if r := opened(t, rec.Path()); r.State() != recover.Starting {
		t.Errorf("state %s, wanted starting", r.State())
	}
	got := make(chan recover.State, 1)
	go func() {
		r, err := recover.OpenStarted(soon(t), rec.Path())
		if err != nil {
			got <- recover.State(err.Error())
			return
		}
		defer r.Close()
		got <- r.State()
	}()
	if err := rec.WriteExit(plan.Exit{Code: 125, Reason: "unavailable"}); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != recover.Exited {
		t.Errorf("got %s", s)
	}
	dead := pinned(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := recover.OpenStarted(soon(t), dead.Path())
	if err != nil || r.State() != recover.NotStarted {
		t.Errorf("got %+v, %v", r, err)
	}
	r.Close()
	_ = rec.Close()
}

func TestSurvey(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	list, err := recover.Survey(r.state, []string{r.record, r.record + "x"})
	if err != nil || len(list) != 2 || list[1].Why == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	i := list[0]
	if i.State != recover.Running || i.Workspace != r.ws || len(i.Mounts) == 0 || i.PID == 0 {
		t.Errorf("%+v", i)
	}
	for _, m := range i.Mounts {
		if strings.HasPrefix(m.Path, "{") {
			t.Errorf("a mount is at %q", m.Path)
		}
	}
}

// TestLibrarySupervisor: a program that runs several launches itself isn't
// killed for one of them, and a wait ends with the launch.
func TestLibrarySupervisor(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	root := rootOf(t, r.record)
	self := recordedSelf(t)
	restore := rewrite(t, r.record, func(root *plan.Root) { root.Supervisor, root.Exe = self.process, self.exe })
	run := opened(t, r.record)
	restore()
	done, err := run.Stop(soon(t), 10*time.Second)
	if err != nil || done.SupervisorKilled || done.Exit == nil {
		t.Errorf("%+v, %v", done, err)
	}
	if err := unix.Kill(root.Init.PID, 0); err == nil && !zombie(root.Init.PID) {
		t.Error("the sandbox is still there")
	}
}

type selfRecord struct {
	process plan.Process
	exe     plan.File
}

func recordedSelf(t *testing.T) selfRecord {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		t.Fatal(err)
	}
	return selfRecord{recorded(t, os.Getpid()), plan.File{Dev: st.Dev, Ino: st.Ino}}
}
