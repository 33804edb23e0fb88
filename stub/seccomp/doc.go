// Package seccomp holds the system call filters, as ready-made programs for
// each architecture and [Mode].
//
// What they refuse is a table, [Rules]: one entry for each system call, with
// the condition, the answer and the reason. gen (the only importer of
// libseccomp) lowers the table to BPF; its output is committed under programs
// and embedded, so that the product needs no C library. Beside each program
// lies the same as text, to be reviewed: the table and the instructions.
//
//	go generate ./stub/seccomp     # needs libseccomp-dev
//
// Invariants:
//
//   - The architecture is compared first. A call of any other ABI (i386 and
//     x32 on amd64, 32-bit arm on arm64) ends the process, since its numbers
//     mean other calls.
//   - Arguments that the kernel takes as 32 bits are compared as 32 bits,
//     whatever the upper half of the register holds.
//   - A call newer than the newest one reviewed here answers ENOSYS, as on an
//     older kernel: programs know how to do without.
//   - A launch whose supervisor answers notifications loads [Notify] on top of
//     its first program: each connect(2) waits for the supervisor, and no
//     answer ever lets the kernel go on by itself.
//   - Everything else that isn't in the table is allowed. The boundary is
//     made of namespaces, mounts and Landlock; the filter takes away what
//     opens them, and the parts of the kernel that a command has no use for.
//
// Limitations: a filter sees numbers, not what pointers lead to, so it can't
// tell one socket path or address from another.
package seccomp

//go:generate go run -tags libseccomp ./gen programs
