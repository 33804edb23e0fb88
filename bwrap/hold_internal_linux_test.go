package bwrap

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/bwrap/cgroup"
)

// What a scope has used is read after the sandbox's end and before its
// monitor's, which is stopped until then.
func TestHoldUntilTheSandboxEnds(t *testing.T) {
	t.Parallel()
	sandbox, sandboxFD := sleeper(t)
	monitor, monitorFD := sleeper(t)
	fd, err := unix.FcntlInt(uintptr(sandboxFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PidfdSendSignal(monitorFD, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, monitor.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatal(err)
	}
	h := &heldScope{done: make(chan struct{})}
	state := ""
	go h.until(fd, monitorFD, func() cgroup.Stats {
		p, err := readProc(sandbox.Process.Pid)
		if err == nil {
			state += string(p.state)
		}
		if p, err = readProc(monitor.Process.Pid); err == nil {
			state += string(p.state)
		}
		return cgroup.Stats{OOMKills: 1}
	})
	select {
	case <-h.done:
		t.Fatal("it was let go while the sandbox lived")
	default:
	}
	_ = sandbox.Process.Kill()
	<-h.done
	if state != "ZT" || h.used.OOMKills != 1 {
		t.Errorf("sandbox and monitor were %q, read was %+v", state, h.used)
	}
	if err := unix.Waitid(unix.P_PID, monitor.Process.Pid, nil, unix.WCONTINUED, nil); err != nil {
		t.Error(err)
	}
}

// sleeper is a process that ends with the test.
func sleeper(t *testing.T) (*exec.Cmd, int) {
	t.Helper()
	fd := -1
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &fd}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); unix.Close(fd) })
	return cmd, fd
}
