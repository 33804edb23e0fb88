// Package seccomp has the profile that every container runs under: what
// docker's default profile allows a container without any capability, less
// what the process tier's filter refuses. A profile of one's own replaces an
// engine's default, so ours must hold all that the default does.
//
// The profiles are generated, one for each architecture, and the build's own is
// embedded:
//
//	profile, err := seccomp.Profile("amd64")
//
// They are in the form of the OCI runtime specification, which is what docker
// and podman take behind "seccomp=". Any ABI but the machine's own ends the
// process. An ordinary call is refused with EPERM, or with ENOSYS where a
// program has an older one to fall back to.
package seccomp

import (
	"fmt"
	"runtime"
	"slices"
)

//go:generate go run ./gen profiles

// Profile is the profile for an architecture, as GOARCH names it: the build's
// own alone, since a container runs on this machine. One that doesn't exist is
// an error, never an empty profile. The bytes are the caller's.
func Profile(arch string) ([]byte, error) {
	if arch != runtime.GOARCH || len(profile) == 0 {
		return nil, fmt.Errorf("cannot find the seccomp profile for %q: this build has that of %s alone", arch, runtime.GOARCH)
	}
	return slices.Clone(profile), nil
}
