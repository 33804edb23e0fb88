package bwrap_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
)

// helperScript is what the helper process supervises; it is a process of its
// own so that it can be signalled, stopped and killed.
const (
	helperScript = "PINFOLD_HELPER_SCRIPT"
	helperState  = "PINFOLD_HELPER_STATE"
	helperGhost  = "PINFOLD_HELPER_GHOST"
	// helperNonblock: standard output is non-blocking.
	helperNonblock = "PINFOLD_HELPER_NONBLOCK"
)

// TestHelperProcess is no test: it is the program that helper starts. It
// supervises one command with its own streams, as pinfold does.
func TestHelperProcess(t *testing.T) {
	script := os.Getenv(helperScript)
	if script == "" {
		return
	}
	if os.Getenv(helperNonblock) != "" {
		must(t, unix.SetNonblock(1, true))
	}
	in := command(script)
	if script == "bash" {
		in.Argv = []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}
	}
	if ghost := os.Getenv(helperGhost); ghost != "" {
		in.Entries = []guard.Entry{entry(t, filepath.Dir(ghost), guard.ReadWrite), entry(t, ghost, guard.Deny)}
	}
	p, err := bwrap.Start(t.Context(), realLaunch(t, in), bwrap.StartOptions{
		Streams: bwrap.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		Forward: true, State: os.Getenv(helperState), Grace: time.Second,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		if e, ok := errors.AsType[*bwrap.NotRunError](err); ok {
			os.Exit(e.ExitCode())
		}
		os.Exit(bwrap.CodeRefused)
	}
	e, err := p.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
	}
	os.Exit(e.Code)
}

// helper is a process that supervises a script.
func helper(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	realMachine(t)
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), append(env, helperScript+"="+script)...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// marked is a script that runs until it is killed, and a word that its
// processes have in their command line.
func marked() (script, mark string) {
	mark = fmt.Sprintf("3599.%d", rand.Uint64())
	return "echo ready; sleep " + mark + " & sleep " + mark, mark
}

// A supervisor that is killed takes everything along, at whatever moment.
func TestKilledSupervisor(t *testing.T) {
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() { must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)) }()
	rounds := 60
	if n, err := strconv.Atoi(os.Getenv("KILL_ROUNDS")); err == nil {
		rounds = n
	}
	for range rounds {
		script, mark := marked()
		cmd := helper(t, script)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		delay := time.Duration(rand.Int64N(int64(150 * time.Millisecond)))
		if rand.IntN(4) == 0 {
			_, err := out.Read(make([]byte, 16)) // the command runs
			must(t, err)
			delay /= 10
		}
		time.Sleep(delay) // the moment is what is tried
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		noOrphans(t, delay)
		if pids := findProcesses(t, mark); len(pids) > 0 {
			t.Fatalf("killed after %v: the command's processes %v live on", delay, pids)
		}
	}
}

// noOrphans waits until every process that was left to this one has ended by
// itself, and reaps it.
func noOrphans(t *testing.T, delay time.Duration) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		left, reaped := "", false
		tasks, err := filepath.Glob("/proc/self/task/*/children")
		must(t, err)
		for _, f := range tasks {
			b, _ := os.ReadFile(f)
			for _, pid := range strings.Fields(string(b)) {
				n, err := strconv.Atoi(pid)
				must(t, err)
				if got, err := unix.Wait4(n, nil, unix.WNOHANG, nil); got == n || err != nil {
					reaped = true // and it may have left its own children to us
					continue
				}
				line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				where, _ := os.ReadFile("/proc/" + pid + "/wchan")
				left += fmt.Sprintf("%s %q in %s; ", pid, line, where)
			}
		}
		if left == "" && !reaped {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("killed after %v: left are %s", delay, left)
		}
		time.Sleep(time.Millisecond) // other processes' ends are no event here
	}
}

// Threads come and go, the collector runs, and the sandbox stays: its parent
// is the thread that started it.
func TestThreadsComeAndGo(t *testing.T) {
	r, err := startLaunch(t, t.Context(), realLaunch(t, command("echo ready; read x; exit 9")), bwrap.StartOptions{}, "")
	must(t, err)
	r.out.until(t, "ready")
	r2, w2, err := os.Pipe()
	must(t, err)
	p, err := bwrap.Start(t.Context(), realLaunch(t, command("read x; exit 9")), bwrap.StartOptions{Streams: bwrap.Streams{Stdin: r2}})
	must(t, err)
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			runtime.GC()
		})
	}
	wg.Wait()
	_, err = w2.Write([]byte("\n"))
	must(t, err)
	if e, err := p.Wait(); err != nil || e.Code != 9 {
		t.Errorf("got %+v, %v", e, err)
	}
	if e := r.wait(t).exit; e.Code != 9 {
		t.Errorf("got %+v", e)
	}
}

func TestForwardedSignals(t *testing.T) {
	t.Parallel()
	script := "for s in HUP INT QUIT TERM USR1 USR2 WINCH CONT; do trap \"echo $s\" $s; done; trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done"
	cmd := helper(t, script)
	w, out := gather(t)
	cmd.Stdout = w
	must(t, cmd.Start())
	w.Close()
	out.until(t, "ready\n")
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT} {
		must(t, cmd.Process.Signal(s))
		if got, want := out.until(t, "\n"), strings.TrimPrefix(unix.SignalName(s), "SIG")+"\n"; got != want {
			t.Errorf("%v: got %q", s, got)
		}
	}
	must(t, cmd.Process.Signal(unix.SIGTERM))
	_ = cmd.Wait()
	if code, rest := cmd.ProcessState.ExitCode(), out.all(); code != 4 || rest != "" {
		t.Errorf("exit %d, and more was said: %q", code, rest)
	}
}

// Before the command runs, SIGTERM ends the launch, cleanly; after, it is the
// command's. Whenever it comes, the status says so and nothing is left.
func TestTermDuringLaunch(t *testing.T) {
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() { must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)) }()
	for i := range 20 {
		script, mark := marked()
		cmd := helper(t, script)
		cmd.Stderr = nil // it says why
		must(t, cmd.Start())
		delay := time.Duration(i) * 8 * time.Millisecond
		time.Sleep(delay) // the moment is what is tried
		must(t, cmd.Process.Signal(unix.SIGTERM))
		_ = cmd.Wait()
		ws, ok := cmd.ProcessState.Sys().(interface{ Signaled() bool })
		early := ok && ws.Signaled() // before Go took signals
		if code := cmd.ProcessState.ExitCode(); code != 128+int(unix.SIGTERM) && !early {
			t.Errorf("after %v: exit %d", delay, code)
		}
		noOrphans(t, delay)
		if pids := findProcesses(t, mark); len(pids) > 0 {
			t.Fatalf("after %v: the command's processes %v live on", delay, pids)
		}
	}
}

// nohup's SIGHUP stays ignored, here and inside.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "grep SigIgn /proc/self/status; trap 'exit 4' USR1; echo ready; while :; do sleep 0.01; done")
	cmd.Args = append([]string{"sh", "-c", "trap '' HUP; exec \"$@\"", "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	w, out := gather(t)
	cmd.Stdout = w
	must(t, cmd.Start())
	w.Close()
	// Whoever runs the tests may ignore others as well.
	var ignored uint64
	if _, err := fmt.Sscanf(out.until(t, "ready\n"), "SigIgn: %x", &ignored); err != nil || ignored&1 == 0 {
		t.Errorf("ignored signals %x, %v, wanted SIGHUP among them", ignored, err)
	}
	must(t, cmd.Process.Signal(unix.SIGHUP))
	must(t, cmd.Process.Signal(unix.SIGUSR1))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit %d", code)
	}
}

// SIGTSTP stops the command and the supervisor, SIGCONT continues both.
func TestStopAndContinue(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "trap 'echo back' CONT; echo ready; while :; do sleep 0.01; done")
	w, out := gather(t)
	cmd.Stdout = w
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // with us as its parent, the group isn't orphaned
	must(t, cmd.Start())
	w.Close()
	out.until(t, "ready\n")
	must(t, cmd.Process.Signal(unix.SIGTSTP))
	var ws unix.WaitStatus
	_, err := unix.Wait4(cmd.Process.Pid, &ws, unix.WUNTRACED, nil)
	must(t, err)
	if !ws.Stopped() {
		t.Fatalf("status %v", ws)
	}
	must(t, cmd.Process.Signal(unix.SIGCONT))
	out.until(t, "back\n")
	must(t, cmd.Process.Signal(unix.SIGTERM))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit %d", code)
	}
}

// The record has the plan before anything starts, what runs before the
// command does, and its end.
func TestRunRecord(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	rec, err := plan.CreateRecord(dir + "/rec")
	must(t, err)
	defer rec.Close()
	l := realLaunch(t, command("echo ready; read x; exit 3"))
	inR, inW, err := os.Pipe()
	must(t, err)
	outW, out := gather(t)
	p, err := bwrap.Start(t.Context(), l, bwrap.StartOptions{Record: rec, Streams: bwrap.Streams{Stdin: inR, Stdout: outW}})
	must(t, err)
	out.until(t, "ready")
	s, err := plan.ReadRecord(dir + "/rec")
	must(t, err)
	if s.Root == nil || s.Exit != nil {
		t.Fatalf("root %v, exit %v", s.Root, s.Exit)
	}
	checkRoot(t, s.Root, p.Pid(), l.Setup.Landlock.Enabled)
	_, err = inW.Write([]byte("\n"))
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	s, err = plan.ReadRecord(dir + "/rec")
	must(t, err)
	if s.Exit == nil || s.Exit.Code != 3 || s.Exit.Reason != "exited" {
		t.Errorf("exit %+v", s.Exit)
	}
}

func checkRoot(t *testing.T, r *plan.Root, command int, landlock bool) {
	t.Helper()
	if r.Supervisor.PID != os.Getpid() || r.Command.PID != command || r.Landlock != landlock || r.Owner != os.Geteuid() {
		t.Errorf("root %+v", r)
	}
	if diff := cmp.Diff(map[string]int{"init": 1, "command": 1}, r.Filters); diff != "" {
		t.Errorf("filters: %s", diff)
	}
	for name, ino := range r.Namespaces {
		var st unix.Stat_t
		must(t, unix.Stat("/proc/self/ns/"+name, &st))
		if ino == st.Ino {
			t.Errorf("the %s namespace is the host's", name)
		}
	}
	if len(r.Namespaces) != 7 {
		t.Errorf("namespaces %v", r.Namespaces)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.Bwrap.PID))
	if err != nil || strings.TrimPrefix(string(env), "PWD=/\x00") != "" { // a shell before it sets PWD
		t.Errorf("bubblewrap's environment: %q, %v", env, err)
	}
}

// Many launches at once don't get in each other's way.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	l := realLaunch(t, command("cat; exit 3"))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			word := strconv.Itoa(i)
			r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, word)
			if err != nil {
				t.Errorf("launch %d: %v", i, err)
				return
			}
			e, err := r.Wait()
			if out := r.out.all(); err != nil || out != word || e.Code != 3 {
				t.Errorf("launch %d: %q, %+v, %v", i, out, e, err)
			}
		})
	}
	wg.Wait()
}

// Each sandbox has a session keyring of its own, and no name by which another
// could join it.
func TestOwnKeyring(t *testing.T) {
	t.Parallel()
	ids := make(chan int, 3)
	go func() {
		defer close(ids)
		runtime.LockOSThread() // a keyring is a thread's; both end here
		for range cap(ids) {
			if err := bwrap.JoinKeyring(); err != nil {
				t.Error(err)
			}
			id, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			if err != nil {
				t.Error(err)
			}
			ids <- id
		}
	}()
	seen := map[int]bool{}
	for id := range ids {
		if seen[id] {
			t.Errorf("keyring %d was joined twice", id)
		}
		seen[id] = true
	}
}

// Standard streams that the caller has closed are /dev/null inside, never
// another descriptor that happened to get the number.
func TestClosedStreams(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	cmd := helper(t, "exec 9>"+dir+"/w/out; x=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo $x >&9",
		helperGhost+"="+dir+"/w/secret", helperState+"="+dir+"/state")
	cmd.Args = append([]string{"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	must(t, cmd.Run())
	b, err := os.ReadFile(dir + "/w/out")
	must(t, err)
	if got := string(b); got != "/dev/null /dev/null /dev/null\n" {
		t.Errorf("got %q", got)
	}
}

// What one run costs this process stays small, whatever the command does with
// it.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "echo ready; i=0; while [ $i -lt 300 ]; do echo flood >/proc/1/fd/2; i=$((i+1)); done; yes | head -c 5000000; echo; echo flooded; read x; exit 0")
	in, err := cmd.StdinPipe()
	must(t, err)
	w, out := gather(t)
	cmd.Stdout = w
	cmd.Stderr = nil
	must(t, cmd.Start())
	w.Close()
	out.until(t, "flooded\n")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	if kib > 40<<10 && !raced { // the test program itself is bigger than pinfold
		t.Errorf("%d KiB", kib)
	}
	in.Close()
	must(t, cmd.Wait())
}
