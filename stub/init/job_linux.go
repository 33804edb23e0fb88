package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// job is a command that runs on a terminal of its own.
type job struct {
	later bool // it comes to the front when it first uses the terminal
}

// run runs the command as the job of its terminal, with this
// process as the session leader that a shell would be: the kernel ignores
// SIGTSTP in a process group that nobody of its session watches over
// (setpgid(2), "orphaned"). It returns only if the file can't be executed.
//
// From here on the command may try its hand at this process, which has
// nothing to lose: the same filters, no capability, no descriptor but the
// control socket, and no tracing of it.
func (j job) run(path string, argv, env []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	// The kernel named it by the number of the descriptor that it was run from.
	name, _ := unix.BytePtrFromString("pinfold")
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	pid, pidfd, err := j.start(path, argv, env)
	if err != nil {
		return err
	}
	if err := sendPacket(wire.EncodeSignal(wire.Started), []int{pidfd}); err != nil {
		unix.Exit(exitFailed) // nobody watches over it: the sandbox ends
	}
	unix.Close(pidfd)
	j.watch(pid)
	return nil
}

// start starts the command in a process group of its own, and puts that in
// the foreground before the command's first instruction: it may read at once,
// and be typed at. A child can't do it itself, since from the background that
// takes SIGTTOU blocked or ignored, which the command would inherit. So it is
// caught at the exec, as a debugger would.
func (j job) start(path string, argv, env []string) (pid, pidfd int, err error) {
	pid, pidfd, err = forkJob(path, argv, env, true)
	if err == nil {
		awaitTrap(pid)
		defer unix.PtraceDetach(pid)
	} else if err == unix.EPERM { // perhaps tracing is forbidden altogether
		pid, pidfd, err = forkJob(path, argv, env, false)
	}
	if err != nil {
		return 0, -1, err
	}
	if !j.later {
		putInFront(pid)
	}
	return pid, pidfd, nil
}

func putInFront(pgrp int) {
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pgrp); err != nil {
		unix.Exit(exitFailed) // the terminal has gone, and the sandbox goes
	}
}

func forkJob(path string, argv, env []string, trace bool) (pid, pidfd int, err error) {
	pidfd = -1
	pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Ptrace: trace, PidFD: &pidfd},
	})
	return pid, pidfd, err
}

// awaitTrap waits for the stop at the exec, ptrace(2). A command that was
// killed at that very moment never ran.
func awaitTrap(pid int) {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !ws.Stopped() {
			unix.Exit(exitFailed)
		}
		return
	}
}

// watch tells the supervisor each time the command is stopped, and ends with
// the command's status.
func (j job) watch(pid int) {
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
		case ws.Stopped() && j.later && (ws.StopSignal() == unix.SIGTTIN || ws.StopSignal() == unix.SIGTTOU):
			j.later = false
			putInFront(pid)
			_ = sendPacket(wire.EncodeSignal(wire.Wants), nil)
		case ws.Stopped():
			_ = sendPacket(wire.EncodeSignal(wire.Stopped), nil)
		}
	}
}
