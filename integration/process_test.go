//go:build linux

package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// running is a launch that hasn't ended.
type running struct {
	*exec.Cmd
	tag            string
	stdout, stderr bytes.Buffer
	done           chan error
}

// start starts a launch; it is killed with the test.
func (l *lab) start(t *testing.T, c launch) *running {
	t.Helper()
	r := &running{Cmd: l.command(context.Background(), t, c), tag: "LAB_TAG=" + l.root, done: make(chan error, 1)}
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	must(t, r.Start())
	go func() { r.done <- r.Wait(); close(r.done) }()
	t.Cleanup(func() { _ = r.Process.Kill(); <-r.done })
	return r
}

// eventually waits for a condition of the outside world that nothing reports.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 30 seconds", what)
}

func (r *running) await(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" appears", func() bool {
		select {
		case err := <-r.done:
			t.Fatalf("ended early: %v\n%s%s", err, r.stdout.String(), r.stderr.String())
		default:
		}
		_, err := os.Stat(path)
		return err == nil
	})
}

// tree lists the processes whose environment carries the lab's tag.
func (r *running) tree(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(env, []byte(r.tag)) {
			out = append(out, pid)
		}
	}
	return out
}

// descendants are the processes below a pid, by their parents.
func descendants(t *testing.T, root int) []int {
	t.Helper()
	out, err := exec.Command("ps", "-e", "-o", "pid=,ppid=").Output()
	must(t, err)
	children := map[int][]int{}
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil {
			children[ppid] = append(children[ppid], pid)
		}
	}
	var all []int
	for next := children[root]; len(next) > 0; {
		all = append(all, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return all
}

func (r *running) kill(t *testing.T) {
	t.Helper()
	must(t, r.Process.Kill())
	<-r.done
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// tree of names and modes under a directory, to compare before and after.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		out = append(out, fmt.Sprintf("%s %v", strings.TrimPrefix(p, dir), info.Mode()))
		return err
	}))
	return out
}

// TestNothingOutlivesTheSupervisor kills the supervisor in several ways while
// the command has children that left its session and ignore signals.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]unix.Signal{"KILL": unix.SIGKILL, "SEGV": unix.SIGSEGV, "ABRT": unix.SIGABRT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			before := listing(t, l.ws)
			r := l.start(t, launch{policy: workspaceOnly(), argv: []string{built.attack, "linger", l.run + "/started"}})
			r.await(t, l.run+"/started")
			below := descendants(t, r.Process.Pid)
			if len(below) < 3 {
				t.Fatalf("only %d processes below the supervisor", len(below))
			}
			must(t, r.Process.Signal(sig))
			<-r.done
			for _, pid := range below {
				eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
			}
			if diff := cmp.Diff(before, listing(t, l.ws)); diff != "" {
				t.Errorf("the workspace changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestNothingOutlivesTheCommand: what a command leaves in the background ends
// with it.
func TestNothingOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	line := built.attack + " linger " + l.run + "/started & while [ ! -e " + l.run + "/go ]; do sleep 0.05; done; exit 3"
	r := l.start(t, sh(workspaceOnly(), line))
	r.await(t, l.run+"/started")
	below := descendants(t, r.Process.Pid)
	write(t, l.run+"/go", "", 0o644)
	<-r.done
	if got := r.ProcessState.ExitCode(); got != 3 {
		t.Errorf("exit %d, want 3: %s", got, r.stderr.String())
	}
	for _, pid := range below {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, sig := range map[string]unix.Signal{
		"TERM": unix.SIGTERM, "INT": unix.SIGINT, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT, "USR1": unix.SIGUSR1, "USR2": unix.SIGUSR2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := l.run + "/ready-" + name
			r := l.start(t, launch{policy: workspaceOnly(), argv: []string{"/bin/bash", "-c", "trap 'echo got " + name + "; exit 42' " + name + "; touch " + ready + "; while :; do sleep 0.05; done"}})
			r.await(t, ready)
			must(t, r.Process.Signal(sig))
			<-r.done
			if got := r.ProcessState.ExitCode(); got != 42 || r.stdout.String() != "got "+name+"\n" {
				t.Errorf("exit %d, want the trap's 42: %s%s", got, r.stdout.String(), r.stderr.String())
			}
		})
	}
}

func TestTermEndsACommandWithoutHandler(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.start(t, sh(workspaceOnly(), "touch "+l.run+"/ready; exec sleep 100"))
	r.await(t, l.run+"/ready")
	must(t, r.Process.Signal(unix.SIGTERM))
	<-r.done
	if got := r.ProcessState.ExitCode(); got != 128+15 {
		t.Errorf("exit %d, want 143: %s", got, r.stderr.String())
	}
}

func TestManyLaunchesShareAWorkspace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := listing(t, l.ws+"/.git")
	var wait sync.WaitGroup
	results := make([]result, 10)
	file := l.policyFile(t, workspaceOnly())
	for i := range results {
		wait.Go(func() {
			results[i] = l.direct(t, launch{argv: []string{
				built.pinfold, "wrap", "--workspace", l.ws, "--state", l.state, "--protect", l.protect, "--policy", file,
				"--", "/bin/sh", "-c", "echo x > made-" + itoa(i) + " && ! echo x >> .git/config",
			}})
		})
	}
	wait.Wait()
	for i, res := range results {
		if res.code != 0 {
			t.Errorf("launch %d: %v", i, res)
		}
	}
	if diff := cmp.Diff(before, listing(t, l.ws+"/.git")); diff != "" {
		t.Errorf("the repository changed (-before +after):\n%s", diff)
	}
}

// TestLateMountStaysUnwritable: a mount that the host makes later shows up
// inside, where Landlock still refuses writes.
func TestLateMountStaysUnwritable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount on the host")
	}
	late := l.public + "/late"
	mkdir(t, late)
	must(t, unix.Mount(l.public, l.public, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(l.public, unix.MNT_DETACH) })
	must(t, unix.Mount("", l.public, "", unix.MS_SHARED, ""))
	r := l.start(t, launch{policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", "touch " + l.run + "/ready; exec " + built.attack + " await " + late + "/marker write " + late + "/new"}})
	r.await(t, l.run+"/ready")
	must(t, unix.Mount("pinfold-late", late, "tmpfs", 0, "mode=0777"))
	t.Cleanup(func() { _ = unix.Unmount(late, unix.MNT_DETACH) })
	write(t, late+"/marker", "x", 0o644)
	<-r.done
	if _, err := os.Stat(late + "/new"); err == nil || strings.Contains(r.stdout.String(), "DID") {
		t.Errorf("a late mount is writable inside: %s%s", r.stdout.String(), r.stderr.String())
	}
	if !strings.Contains(r.stdout.String(), "HELD") && r.ProcessState.ExitCode() != 123 {
		t.Errorf("neither held nor ended: exit %d %s%s", r.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String())
	}
}
