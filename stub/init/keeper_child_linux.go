package main

import (
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// start runs this program once more, in the form that becomes the command.
// fds are those of the orders.
func (k *keeper) start(fds []int) *wire.Failure {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failed(wire.StepHello, "", "cannot make a control socket", err)
	}
	setup, streams := fds[0], fds[2:]
	k.child.pid, err = syscall.ForkExec(k.self, []string{k.self}, &syscall.ProcAttr{
		Env: []string{},
		Files: []uintptr{
			uintptr(streams[0]), uintptr(streams[1]), uintptr(streams[2]),
			wire.SetupFD: uintptr(setup), wire.ControlFD: uintptr(pair[1]),
		},
		Sys: &syscall.SysProcAttr{PidFD: &k.child.pidfd},
	})
	unix.Close(pair[1])
	unix.Close(setup)
	closeAll(streams)
	if err != nil {
		return failed(wire.StepExec, "", "cannot start a process", err)
	}
	k.child.socket = pair[0]
	ends := [2]int{}
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return failed(wire.StepExec, "", "cannot wait for a process", err)
	}
	k.ends = ends[0]
	go reapAll(k.child.pid, ends[1])
	if k.child.pidfd < 0 {
		return failed(wire.StepExec, "", "cannot hold a process", unix.ENOSYS)
	}
	if err := sendOn(k.socket, wire.EncodeSignal(wire.Child), []int{k.child.pidfd}); err != nil {
		return failed(wire.StepHello, "", "cannot tell the supervisor", err)
	}
	return nil
}

// hearChild passes on one packet of the process that becomes the command. The
// end after Ready is the exec.
func (k *keeper) hearChild() {
	c := &k.child
	body, fds, err := receiveOn(c.socket)
	if err != nil {
		unix.Close(c.socket)
		c.socket = -1
		if c.ready && !c.failed && c.job < 0 {
			c.running = true
			k.tell(wire.EncodeSignal(wire.Running), nil)
		}
		return
	}
	k.tell(body, fds)
	switch wire.Type(body[0]) {
	case wire.Ready:
		c.ready = true
	case wire.Failed:
		c.failed = true
	case wire.Started:
		if len(fds) == 1 && c.job < 0 {
			c.job, c.running = fds[0], true
			fds = nil
		}
	}
	closeAll(fds)
}
