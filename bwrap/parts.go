package bwrap

import (
	"fmt"

	"pinfold/policy"
	"pinfold/stub"
	"pinfold/stub/seccomp"
)

// filterMode is the filter that a policy's unix_sockets asks for. As long as
// nothing looks at each connect(2), "listed" means that no unix socket can be
// made at all, and a policy that lists one is refused.
func filterMode(in input) seccomp.Mode {
	if in.UnixSockets == policy.SocketsAll {
		return seccomp.Unix
	}
	return seccomp.Base
}

// embedded are the programs that this build carries for an architecture.
func embedded(arch string, mode seccomp.Mode) (*Parts, error) {
	program, err := stub.Binary(arch)
	if err != nil {
		return nil, partRefusal("stub", arch, err)
	}
	sum, err := stub.Digest(arch)
	if err != nil {
		return nil, partRefusal("stub", arch, err)
	}
	filter, err := seccomp.Program(arch, mode)
	if err != nil {
		return nil, partRefusal("seccomp filter", arch, err)
	}
	return &Parts{Stub: program, StubSHA256: sum, Filter: filter}, nil
}

func partRefusal(what, arch string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "part_missing", Subject: what,
		Why: fmt.Sprintf("cannot load the %s for %s: %v", what, arch, err),
		Fix: "build pinfold with make build", Err: err,
	}
}
