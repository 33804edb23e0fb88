//go:build linux && !amd64

package bwrap

// vforkCall: vfork(2) is clone(2) here.
const vforkCall = "-1"
