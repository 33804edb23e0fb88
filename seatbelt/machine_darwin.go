package seatbelt

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/policy"
)

// argumentsOf is what a process was started with, arguments and environment:
// sysctl kern.procargs2.
func argumentsOf(pid int) ([]byte, error) { return unix.SysctlRaw("kern.procargs2", pid) }

// Probe learns what a translation needs of this machine.
func Probe() (Machine, error) {
	info, err := os.Stat(SandboxExec)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no file")
	}
	if err != nil {
		return Machine{}, &policy.Refusal{
			Reason: policy.Unavailable, Code: "sandbox_exec_missing", Subject: SandboxExec, Err: err,
			Why: fmt.Sprintf("cannot use %q: %v", SandboxExec, cause(err)),
			Fix: "it is part of macOS; a system without it can't hold a process",
		}
	}
	version, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		return Machine{}, fmt.Errorf("cannot learn the version of macOS: %w", err)
	}
	return Machine{Tool: plan.Tool{Path: SandboxExec, Version: version}}, nil
}
