package main

import (
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// runJob runs the command as the foreground job of its terminal, with this
// process as the session leader that a shell would be: the kernel ignores
// SIGTSTP in a process group that nobody of its session watches over
// (setpgid(2), "orphaned"). It returns only if the file can't be executed.
//
// From here on the command may try its hand at this process, which has
// nothing to lose: the same filters, no capability, no descriptor but the
// control socket, and no tracing of it.
func runJob(path string, argv, env []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	pidfd := -1
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, PidFD: &pidfd},
	})
	if err != nil {
		return err
	}
	// A command that is quick to read has been stopped by SIGTTIN before this
	// call; watch then continues it.
	_ = setForeground(pid)
	if err := sendPacket(wire.EncodeSignal(wire.Started), []int{pidfd}); err != nil {
		unix.Exit(exitFailed) // nobody watches over it: the sandbox ends
	}
	unix.Close(pidfd)
	watch(pid)
	return nil
}

// watch tells the supervisor each time the command is stopped, and ends with
// the command's status.
func watch(pid int) {
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			unix.Exit(exitFailed)
		case ws.Exited():
			unix.Exit(ws.ExitStatus())
		case ws.Signaled():
			unix.Exit(128 + int(ws.Signal()))
		case ws.Stopped() && isEarly(pid, ws.StopSignal()):
			_ = unix.Kill(-pid, unix.SIGCONT)
		case ws.Stopped():
			_ = sendPacket(wire.EncodeSignal(wire.Stopped), nil)
		}
	}
}

// isEarly reports whether the command was stopped for using the terminal from
// the background though it is in the foreground: it was faster than
// setForeground.
func isEarly(pid int, sig syscall.Signal) bool {
	if sig != unix.SIGTTIN && sig != unix.SIGTTOU {
		return false
	}
	front, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && front == pid
}

func setForeground(pgrp int) error { return unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pgrp) }
