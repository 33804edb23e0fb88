package bwrap

import (
	"fmt"

	"pinfold/policy"
	"pinfold/stub"
	"pinfold/stub/seccomp"
)

// embedded are the programs that this build carries for an architecture.
func embedded(arch string, mode seccomp.Mode) (*Parts, error) {
	program, err := stub.Open(arch)
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
	notify, err := seccomp.Program(arch, seccomp.Notify)
	if err != nil {
		return nil, partRefusal("seccomp filter", arch, err)
	}
	p := &Parts{program: program, StubSHA256: sum, Filter: filter, Notify: notify}
	if mode == seccomp.Listed {
		p.hand, err = seccomp.Program(arch, seccomp.Base)
	}
	if err != nil {
		return nil, partRefusal("seccomp filter", arch, err)
	}
	return p, nil
}

func partRefusal(what, arch string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "part_missing", Subject: what,
		Why: fmt.Sprintf("cannot load the %s for %s: %v", what, arch, err),
		Fix: "build pinfold with make build", Err: err,
	}
}
