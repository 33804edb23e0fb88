//go:build libseccomp

package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"

	"pinfold/stub/seccomp"
)

const (
	// x32Bit marks the calls of the x32 ABI, which share amd64's AUDIT_ARCH.
	x32Bit = 0x40000000
	// cancelled is the number of a call that a tracer took back (ptrace(2)).
	// The kernel runs the filter on it, and nothing else.
	cancelled = 0xffffffff
)

// head compares the architecture, then bounds the numbers from above and
// refuses the calls that libseccomp doesn't know by name yet. What passes
// falls into the instructions that follow.
func head(arch string, unknown []seccomp.Rule) ([]byte, error) {
	list := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: seccomp.AuditArch(arch), SkipTrue: 1},
		bpf.RetConstant{Val: seccomp.RetKillProcess},
		bpf.LoadAbsolute{Off: 0, Size: 4},
	}
	var tests []bpf.Instruction
	if arch == "amd64" {
		tests = append(tests, ifThen(bpf.JumpGreaterOrEqual, x32Bit), bpf.RetConstant{Val: seccomp.RetKillProcess})
	}
	tests = append(tests, ifThen(bpf.JumpGreaterThan, seccomp.Newest), refusal(seccomp.ENOSYS))
	for _, r := range unknown {
		number, ok := seccomp.Number(arch, r.Syscall)
		if !ok || len(r.Args) > 0 {
			return nil, fmt.Errorf("libseccomp is too old for rule %s", r)
		}
		tests = append(tests, ifThen(bpf.JumpEqual, number), refusal(r.Answer))
	}
	list = append(list, bpf.JumpIf{Cond: bpf.JumpEqual, Val: cancelled, SkipTrue: uint8(len(tests))})
	return encode(append(list, tests...))
}

// ifThen runs the next instruction where the number compares so, and the one
// after it otherwise.
func ifThen(cond bpf.JumpTest, value uint32) bpf.Instruction {
	return bpf.JumpIf{Cond: cond, Val: value, SkipFalse: 1}
}

func refusal(answer seccomp.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: seccomp.RetErrno | uint32(answer)}
}

// encode is the instructions as struct sock_filter.
func encode(list []bpf.Instruction) ([]byte, error) {
	raw, err := bpf.Assemble(list)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, in := range raw {
		b = binary.LittleEndian.AppendUint16(b, in.Op)
		b = append(b, in.Jt, in.Jf)
		b = binary.LittleEndian.AppendUint32(b, in.K)
	}
	return b, nil
}
