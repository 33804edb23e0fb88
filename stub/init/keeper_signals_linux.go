package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// passed are the signals that go on to the command, wherever they come from.
var passed = [...]unix.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP,
}

// signalSet is passed and SIGCHLD as the kernel's set.
func signalSet() *unix.Sigset_t {
	set := &unix.Sigset_t{}
	add(set, unix.SIGCHLD)
	for _, sig := range passed {
		add(set, sig)
	}
	return set
}

func add(set *unix.Sigset_t, sig unix.Signal) { set.Val[0] |= 1 << (sig - 1) }

func has(set *unix.Sigset_t, sig unix.Signal) bool { return set.Val[0]&(1<<(sig-1)) != 0 }

// takeSignals makes signals wait for [openSignals]. They have to be blocked in
// every thread, and the runtime's are there already; but it honours the mask
// that it was started with (os/signal, "Signals on Unix"), so the program
// executes itself once more. What else there is gets its default action, which
// the kernel keeps from pid 1.
func takeSignals(self string) *wire.Failure {
	set := signalSet()
	var old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, set, &old); err != nil {
		return failed(wire.StepSignals, "", "cannot block signals", err)
	}
	if old.Val[0]&set.Val[0] != set.Val[0] {
		err := unix.Exec(self, []string{self, wire.ContainerArg}, nil)
		return failed(wire.StepSignals, self, "cannot execute itself", err)
	}
	for n := uintptr(1); n <= sigLast; n++ {
		sig := unix.Signal(n)
		if sig == unix.SIGKILL || sig == unix.SIGSTOP || sig == unix.SIGURG || has(set, sig) {
			continue // SIGURG is the runtime's own
		}
		action := sigaction{handler: sigDefault}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return failed(wire.StepSignals, "", "cannot reset signal "+itoa(uint64(n)), errno)
		}
	}
	return nil
}

// unblock executes this program in its ordinary form with no signal blocked:
// what it forks would else start with the mask that it was started with.
func unblock(self string) {
	if unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) == nil {
		_ = unix.Exec(self, []string{self}, nil)
	}
}

func openSignals() (int, error) {
	return unix.Signalfd(-1, signalSet(), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
}

// takeAll takes the signals that wait.
func (k *keeper) takeAll() {
	var info unix.SignalfdSiginfo
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(k.signals, buf)
		if err != nil || n != len(buf) {
			return // no more
		}
		if sig := unix.Signal(info.Signo); sig == unix.SIGCHLD {
			k.reap()
		} else {
			k.passOn(sig, info.Pid == 0)
		}
	}
}

// passOn gives a signal to the command. One whose sender has no pid here came
// from outside of the pid namespace (sigaction(2), pid_namespaces(7)): nobody
// inside can make a SIGTERM look like the engine's.
func (k *keeper) passOn(sig unix.Signal, outside bool) {
	if sig == unix.SIGTERM && outside {
		k.note(wire.NoteTerm)
		k.tell(wire.EncodeSignal(wire.Termed), nil)
	}
	k.deliver(sig)
}

// deliver sends a signal to the command. Stops and continues are its process
// group's, as a shell's are.
func (k *keeper) deliver(sig unix.Signal) {
	c := &k.child
	switch {
	case c.pid == 0 || c.ended:
	case c.job >= 0:
		_ = unix.PidfdSendSignal(c.job, sig, nil, 0)
	case sig == unix.SIGTSTP || sig == unix.SIGCONT:
		_ = unix.Kill(-c.pid, sig)
	default:
		_ = unix.Kill(c.pid, sig)
	}
}

// reap takes the ended children, the orphans that pid 1 inherits among them.
func (k *keeper) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || pid <= 0:
			return
		case pid == k.child.pid:
			k.finish(ws)
		}
	}
}

// finish notes the end of the command's process, after all that it has said.
func (k *keeper) finish(ws unix.WaitStatus) {
	for k.child.socket >= 0 {
		k.hearChild()
	}
	k.child.status, k.child.ended = ws, true
}
