//go:build linux

// Init is the small static program that stands inside the boundary between
// its builder (bubblewrap) and the command. It
//
//  1. reads its orders, a [wire.Setup], from a sealed memfd;
//  2. makes the listeners and the pseudo-terminal inside and hands them to the
//     supervisor over a SOCK_SEQPACKET pair, with its pid as credentials;
//  3. waits for the supervisor's Go;
//  4. proves that the boundary is the one that was ordered: no capability, no
//     way to gain one, a seccomp filter, and every path of the Grant the very
//     object the guard saw;
//  5. applies Landlock, umask and directory, and tries what the plan claims;
//  6. waits for another Go, where the orders say so; and
//  7. sets the limits and becomes the command.
//
// Anything that isn't as ordered ends it with status 125 and one Failed
// packet that says what; there is no step it skips. Its own descriptors, the
// memfd and the pair, are close-on-exec, so the supervisor reads end of file
// when the command runs.
//
// In a container it is pid 1 instead, from the start to the end ([wire]): it
// runs itself once more for the steps above, hands listeners out, passes
// signals on, takes care of orphans, and outlives its supervisor.
//
// It imports x/sys/unix and stub/wire alone: it is on the path of each
// launch, and what it does has to be read in one sitting. All of it runs on
// one locked thread, because no_new_privs, Landlock, seccomp and the signal
// mask are properties of a thread, and execve(2) keeps those of its caller.
package main
