package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// seccompFilter is SECCOMP_MODE_FILTER as PR_GET_SECCOMP returns it.
const seccompFilter = 2

// checkPrivileges proves that the builder left nothing to gain privilege
// with: each of these is a bubblewrap option away from being there.
func checkPrivileges() *wire.Failure {
	if f := checkCapabilities(); f != nil {
		return f
	}
	got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || got != 1 {
		return failed(wire.StepPrivileges, "", "no_new_privs is not set", err)
	}
	got, err = unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil || got != seccompFilter {
		return failed(wire.StepPrivileges, "", "no seccomp filter is in force", err)
	}
	return nil
}

// checkCapabilities looks at all five sets: the ambient one is within the
// permitted one, capabilities(7).
func checkCapabilities() *wire.Failure {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return failed(wire.StepPrivileges, "", "cannot read the capabilities", err)
	}
	if sets != ([2]unix.CapUserData{}) {
		return failed(wire.StepPrivileges, "", "a capability is left", nil)
	}
	for c := uintptr(0); ; c++ {
		got, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err == unix.EINVAL && c > 0 {
			return nil // past the kernel's last capability
		}
		if err != nil || got != 0 {
			return failed(wire.StepPrivileges, "", "capability "+itoa(uint64(c))+" is left in the bounding set", err)
		}
	}
}
