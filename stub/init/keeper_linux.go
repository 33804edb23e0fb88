package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// keeper is pid 1 of a container. It stays until the command has ended, and
// holds what a supervisor may come back for. The command can do nothing to
// it: it is undumpable, so no process without CAP_SYS_PTRACE looks into it or
// takes its descriptors, and the kernel keeps signals from it whose action is
// the default (pid_namespaces(7)).
type keeper struct {
	self      string // this program
	nonce     [wire.NonceSize]byte
	signals   int  // pipe, with those that came
	stops     int  // pipe, with an engine's
	socket    int  // to the supervisor, -1 while there is none
	hailed    bool // socket waits for Again
	watch     int  // inotify, for another supervisor's socket
	ends      int  // pipe, with the command's status in the end
	notes     int
	listeners []int
	child     command
}

// command is the process that becomes the command, and then the command.
type command struct {
	pid    int
	pidfd  int
	job    int // pidfd of the command of a terminal, whose parent the process is
	socket int // to it, -1 once it has been executed or has ended
	ready  bool
	failed bool
	// running: it was executed.
	running bool
	ended   bool
	status  unix.WaitStatus
}

// keep returns only if nothing was started.
func keep(self string) {
	k := &keeper{self: self, signals: -1, stops: -1, socket: -1, watch: -1, ends: -1, notes: -1, child: command{pidfd: -1, job: -1, socket: -1}}
	f := k.begin()
	if f == nil {
		k.loop()
		k.leave()
	}
	if k.socket >= 0 {
		_ = sendOn(k.socket, wire.EncodeFailure(f), nil)
	}
}

// begin takes the steps up to the start of the command's process.
func (k *keeper) begin() *wire.Failure {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed(wire.StepPrivileges, "", "cannot make pid 1 undumpable", err)
	}
	if f := k.takeSignals(); f != nil {
		return f
	}
	if f := k.readNonce(); f != nil {
		return f
	}
	if err := k.call(false); err != nil {
		return failed(wire.StepHello, "", "cannot call the supervisor", err)
	}
	errand, fds, f := k.awaitOrders()
	if f != nil {
		return f
	}
	k.notes = fds[1]
	// What is left of them stays open, and nobody looks at it again: the lock
	// that hangs on it is released when pid 1 has gone.
	fds = fds[:wire.OrderFDs]
	if k.listeners, f = listenAll(errand.Listen); f != nil {
		return f
	}
	if err := k.offer(); err != nil {
		return failed(wire.StepHello, "", "cannot hand out the listeners", err)
	}
	return k.start(fds)
}

// loop serves whoever has something to say, until the command has ended.
func (k *keeper) loop() {
	for !k.child.ended {
		k.turn(-1)
	}
}

// reconnectTime is how long a lost supervisor is waited for before the socket
// is tried again though nothing told of a new one: the watch is the rule, and
// this is for a user who may not have another (inotify(7), limits).
const reconnectTime = 1000 // milliseconds

// turn waits for one event, for timeout milliseconds at most, and reports
// whether there was one.
func (k *keeper) turn(timeout int) bool {
	if k.socket < 0 && (timeout < 0 || timeout > reconnectTime) {
		timeout = reconnectTime
	}
	// The command's process before its end: what it said goes first.
	polled := []unix.PollFd{
		{Fd: int32(k.child.socket), Events: unix.POLLIN},
		{Fd: int32(k.socket), Events: unix.POLLIN},
		{Fd: int32(k.watch), Events: unix.POLLIN},
		{Fd: int32(k.signals), Events: unix.POLLIN},
		{Fd: int32(k.ends), Events: unix.POLLIN},
		{Fd: int32(k.stops), Events: unix.POLLIN},
	}
	n, err := unix.Poll(polled, timeout)
	if err != nil {
		return err == unix.EINTR
	}
	for i, do := range []func(){k.hearChild, k.hearSupervisor, k.seek, k.takeAll, k.finish, k.takeAll} {
		if polled[i].Revents != 0 {
			do()
		}
	}
	if n == 0 && k.socket < 0 {
		k.seek()
	}
	return n > 0
}

// goodbyeTime is how long the end waits for a supervisor that reads what the
// container has used, which is gone with pid 1.
const goodbyeTime = 5000 // milliseconds

// leave ends the container as the command ended. What never ran leaves no note.
func (k *keeper) leave() {
	end := endOf(k.child)
	switch {
	case !k.child.running:
	case end.Signal != 0:
		k.note(wire.NoteSignal + " " + itoa(uint64(end.Signal)))
	default:
		k.note(wire.NoteExit + " " + itoa(uint64(end.Code)))
	}
	if k.socket >= 0 && !k.hailed && sendOn(k.socket, wire.EncodeEnded(end), nil) == nil {
		for k.socket >= 0 && k.turn(goodbyeTime) { //nolint:revive // until Bye, or nobody is left
		}
	}
	unix.Exit(end.Code)
}

// endOf is how the command ended; one that never ran has the stub's own status.
func endOf(c command) wire.End {
	switch {
	case !c.running:
		return wire.End{Code: exitFailed}
	case c.status.Signaled():
		sig := int(c.status.Signal())
		return wire.End{Code: 128 + sig, Signal: sig}
	}
	return wire.End{Code: c.status.ExitStatus()}
}

// note writes one line for whoever comes after the supervisor. There is
// nobody to tell when it fails, but the supervisor, which knows by itself.
func (k *keeper) note(line string) {
	if k.notes >= 0 {
		_, _ = unix.Write(k.notes, []byte(line+"\n"))
	}
}
