// Package notify answers the system calls that the second seccomp program
// hands over: every connect(2) of a sandbox (seccomp_unotify(2)).
//
//	e, err := notify.New(notify.Options{Listener: fd, Witness: listener, ...})
//	go e.Run()
//	defer e.Close()
//
// What holds:
//   - No call is ever continued in the kernel. A second thread can change the
//     address, or what the descriptor names, after any look at it. So the
//     caller's socket is duplicated once, the address is read once, both are
//     judged, and the engine itself connects that socket to that address.
//   - What a socket is, is asked of the socket, never of the address.
//   - A socket of another network namespace (one that was passed in) is never
//     connected.
//   - A unix socket is opened in the caller's own root first, and the opened
//     one is judged and connected to: by its device and inode it must be
//     listed, or one that a process of this sandbox listens on.
//   - What isn't listed is looked up and connected to without the capabilities
//     of this process, which no command has: a supervisor of root's would
//     enter directories that are closed to the command otherwise.
//   - A call that can't be judged is refused. Nothing waits without a bound.
//   - A signal ends a call that waits, or has it made anew, as the kernel
//     decides, a tenth of a second or two later than it would.
//
// Limitations: a service that is connected to sees the supervisor's process
// in SO_PEERCRED, and a server inside sees process 0. A unix socket's inode is
// compared by its low 32 bits, all that unix_diag tells, so one more thing is
// asked of a socket of the sandbox's own: that it lies on a mount that the
// command can write to, and that the host listens on no inode of that number.
package notify
