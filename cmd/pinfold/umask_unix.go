//go:build unix

package main

import "syscall"

// umask reads the caller's file mode mask: there is no call that only reads.
func umask() int {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return mask
}

// ownUmask is the mask for what pinfold itself makes, which it must be able to
// use: the caller's, less what takes a file from its owner. It answers the
// caller's, which the command starts with.
func ownUmask() int {
	mask := umask()
	syscall.Umask(mask &^ 0o700)
	return mask
}
