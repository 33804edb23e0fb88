package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// passed are the signals that go on to the command, wherever they come from.
var passed = [...]unix.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP, wire.StopSignal,
}

// signalPipe is where [onSignal] writes to. Nothing else does.
//
//lint:ignore U1000 the assembly reads it
var signalPipe int32

// stopPipe is the same for [wire.StopSignal], which nobody inside can send:
// however many others wait, it isn't full.
//
//lint:ignore U1000 the assembly reads it
var stopPipe int32

// onSignal is the handler of the signals in passed, in assembly: it writes the
// beginning of the siginfo_t to signalPipe. The runtime's own handler keeps
// the sender to itself, and a signalfd needs signals blocked in every thread,
// which the runtime undoes for those that end a process.
//
//lint:ignore U1000 the assembly takes its address
func onSignal()

// signalReturn is what onSignal returns to where the kernel wants to be told,
// sigreturn(2).
//
//lint:ignore U1000 the assembly takes its address
func signalReturn()

// handlerAddress and returnAddress are theirs.
func handlerAddress() uintptr
func returnAddress() uintptr

// siginfo is what onSignal writes: the beginning of siginfo_t as kill(2) and
// its like fill it, sigaction(2).
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
}

// The flags of the handler, sigaction(2) and the kernel's signal.h: it runs on
// the runtime's own signal stack, which every thread has.
const (
	saSigInfo  = 0x4
	saRestorer = 0x04000000
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
)

// takeSignals has the signals that are for the command delivered through a
// pipe. All others get their default action, which the kernel keeps from
// pid 1, whoever sends them; SIGURG is the runtime's own.
func (k *keeper) takeSignals() *wire.Failure {
	for own, shared := range map[*int]*int32{&k.signals: &signalPipe, &k.stops: &stopPipe} {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return failed(wire.StepSignals, "", "cannot receive signals", err)
		}
		*own, *shared = pipe[0], int32(pipe[1])
	}
	ours := sigaction{
		handler: handlerAddress(), restorer: returnAddress(),
		flags: saSigInfo | saRestorer | saOnStack | saRestart, mask: ^uint64(0),
	}
	for n := uintptr(1); n <= sigLast; n++ {
		action := &sigaction{handler: sigDefault}
		switch sig := unix.Signal(n); {
		case sig == unix.SIGKILL || sig == unix.SIGSTOP || sig == unix.SIGURG:
			continue
		case isPassed(sig):
			action = &ours
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(action)), 0, 8, 0, 0)
		if errno != 0 {
			return failed(wire.StepSignals, "", "cannot set signal "+itoa(uint64(n)), errno)
		}
	}
	return nil
}

func isPassed(sig unix.Signal) bool {
	for _, p := range passed {
		if p == sig {
			return true
		}
	}
	return false
}

// takeAll takes the signals that wait, an engine's word first.
func (k *keeper) takeAll() {
	k.takeFrom(k.stops)
	k.takeFrom(k.signals)
}

func (k *keeper) takeFrom(pipe int) {
	var info siginfo
	buf := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))[:]
	for {
		n, err := unix.Read(pipe, buf)
		if err != nil || n != len(buf) {
			return // no more
		}
		k.passOn(unix.Signal(info.signo), info.code == siUser && info.pid == 0)
	}
}

// siUser is SI_USER: kill(2) sent it, and the pid is its sender's.
const siUser = 0

// passOn gives a signal to the command. One whose sender has no pid here came
// from outside of the pid namespace (sigaction(2), pid_namespaces(7)): nobody
// inside can make a SIGTERM look like the engine's.
func (k *keeper) passOn(sig unix.Signal, outside bool) {
	if sig == wire.StopSignal {
		if !outside {
			return // without the filter somebody inside could send it
		}
		sig = unix.SIGTERM
	}
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
	case c.job >= 0 && isGroups(sig) && unix.PidfdSendSignal(c.job, sig, nil, pidfdGroup) == nil:
	case c.job >= 0:
		_ = unix.PidfdSendSignal(c.job, sig, nil, 0)
	case isGroups(sig):
		_ = unix.Kill(-c.pid, sig)
	default:
		_ = unix.Kill(c.pid, sig)
	}
}

// pidfdGroup is PIDFD_SIGNAL_PROCESS_GROUP, pidfd_send_signal(2), Linux 6.9.
const pidfdGroup = 1 << 2

func isGroups(sig unix.Signal) bool { return sig == unix.SIGTSTP || sig == unix.SIGCONT }

// reapAll takes the ended children, the orphans that pid 1 inherits among
// them, and writes the end of the one that counts to a pipe. It waits on a
// thread of its own.
func reapAll(count, pipe int) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		if err != nil && err != unix.EINTR {
			return // no child is left
		}
		if pid == count {
			b := (*[unsafe.Sizeof(ws)]byte)(unsafe.Pointer(&ws))[:]
			_, _ = unix.Write(pipe, b) // one word into an empty pipe
		}
	}
}

// finish notes the end of the command's process, after all that it has said.
func (k *keeper) finish() {
	var ws unix.WaitStatus
	b := (*[unsafe.Sizeof(ws)]byte)(unsafe.Pointer(&ws))[:]
	if n, err := unix.Read(k.ends, b); err != nil || n != len(b) {
		return // once more, then
	}
	for k.child.socket >= 0 {
		k.hearChild()
	}
	k.child.status, k.child.ended = ws, true
}
