package recover_test

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/recover"
)

// headless is set in a process that ends its first thread and runs on.
const headless = "PINFOLD_TEST_HEADLESS"

// asHeadless ends the first thread, on which a program's init functions run,
// and lets another one tell. What the kernel shows of such a process is a
// zombie, and it runs.
func asHeadless() {
	go func() {
		runtime.LockOSThread() // not the first one, which is locked
		for !zombie(os.Getpid()) {
			runtime.Gosched()
		}
		_, _ = unix.Write(1, []byte("up\n"))
		_, _ = unix.Read(0, make([]byte, 1))
		os.Exit(0)
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

func init() {
	if os.Getenv(headless) != "" {
		runtime.LockOSThread()
		asHeadless()
	}
}

// startHeadless runs one, and returns once its first thread has ended.
func startHeadless(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(os.Environ(), headless+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" || !zombie(cmd.Process.Pid) {
		t.Fatalf("no zombie that runs: %q, %v", line, err)
	}
}

// TestHeadless: a second child of the parent's whose first thread has ended,
// in the host's namespaces, isn't taken for one that has ended.
func TestHeadless(t *testing.T) {
	r := direct(t)
	startHeadless(t, exec.CommandContext(t.Context(), os.Args[0]))
	refutedBy(t, recover.Claim{Record: r.record, Parent: os.Getpid()}, recover.ProofOnlyRoot, "run 2 processes")
}

// TestHeadlessInside: one inside is looked at like any other, and so are its
// children.
func TestHeadlessInside(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	script := strings.ReplaceAll(`import ctypes,subprocess,sys,threading
def other():
    threading.main_thread().join(0.3)
    subprocess.Popen(["sleep", "1000"])
    print("up", flush=True)
    sys.stdin.read()
threading.Thread(target=other).start()
ctypes.CDLL(None).syscall(60, 0)`, "60", itoa(unix.SYS_EXIT))
	r := start(t, "exec "+python+" -c '"+script+"'")
	v := prove(t, r)
	if !v.Adoptable || v.Processes != 3 {
		t.Errorf("%+v, wanted pid 1, the headless one and its child", v)
	}
}
