package bwrap_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// isStopped reports whether a process stands.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	return b[bytes.LastIndexByte(b, ')')+2] == 'T'
}

// stopAndContinue stops a script's process group, as a terminal would, and
// continues it some moment after the script itself has stopped: by then a
// shell would say so, and might be told "fg". The supervisor, the script's
// child, must go on, and so the command, which answers to SIGUSR1.
func stopAndContinue(t *testing.T, script int, out *gathered) {
	t.Helper()
	supervisor := childrenOf(t, script)[0]
	for range 150 {
		must(t, unix.Kill(-script, unix.SIGTSTP))
		for deadline := time.Now().Add(20 * time.Second); !isStopped(t, script); {
			if time.Now().After(deadline) {
				t.Fatal("the script didn't stop")
			}
		}
		time.Sleep(rand.N(2 * time.Millisecond)) // the moment is what is tried
		must(t, unix.Kill(-script, unix.SIGCONT))
		answered := make(chan struct{})
		go ask(supervisor, answered)
		out.until(t, "usr")
		close(answered)
	}
}

// ask sends SIGUSR1 until it is answered: a shell that has just looked for
// signals and begins to read overlooks one.
func ask(pid int, answered <-chan struct{}) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_ = unix.Kill(pid, unix.SIGUSR1)
		select {
		case <-answered:
			return
		case <-again.C:
		}
	}
}

// usrScript has none of the words it says, which a terminal would echo.
const usrScript = `trap "echo u\"\"sr" USR1; echo rea""dy; until read -r y; do :; done; echo got $y`

// A supervisor below a script takes longer to stop than the script does: it
// waits for the command's report. If it is continued in the meantime, it may
// not stop for good afterwards.
func TestContinuedBelowAScript(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.typeIn("h '" + usrScript + "' | cat\n")
	c.see("ready\r\n")
	for _, pid := range childrenOf(t, c.cmd.Process.Pid) {
		if len(childrenOf(t, pid)) > 0 {
			stopAndContinue(t, pid, c.out)
		}
	}
	c.typeIn("fg\n")
	c.typeIn("more\n")
	c.see("got more\r\n")
	c.see(prompt)
}
