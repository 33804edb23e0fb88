//go:build unix

package main

import "syscall"

// umask reads the caller's file mode mask: there is no call that only reads.
func umask() int {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return mask
}
