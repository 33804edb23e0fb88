package seccomp

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// An instruction is struct sock_filter, bpf(4).
type instruction struct {
	op     uint16
	jt, jf uint8
	k      uint32
}

// instructionSize is sizeof(struct sock_filter), little endian on every
// architecture of [Arches].
const instructionSize = 8

// The opcodes that seccomp programs consist of, linux/bpf_common.h.
const (
	opLoad   = 0x20 // BPF_LD|BPF_W|BPF_ABS
	opAnd    = 0x54 // BPF_ALU|BPF_AND|BPF_K
	opJump   = 0x05 // BPF_JMP|BPF_JA
	opEqual  = 0x15 // BPF_JMP|BPF_JEQ|BPF_K
	opAbove  = 0x25 // BPF_JMP|BPF_JGT|BPF_K
	opAtMost = 0x35 // BPF_JMP|BPF_JGE|BPF_K
	opBits   = 0x45 // BPF_JMP|BPF_JSET|BPF_K
	opReturn = 0x06 // BPF_RET|BPF_K
)

// comparisons are the conditional jumps as signs.
var comparisons = map[uint16]string{opEqual: "==", opAbove: ">", opAtMost: ">=", opBits: "&"}

// Disassemble is a program as text, one instruction a line, with the names of
// system calls, arguments and answers.
func Disassemble(arch string, program []byte) (string, error) {
	if len(program) == 0 || len(program)%instructionSize != 0 {
		return "", fmt.Errorf("cannot disassemble %d bytes: no whole number of instructions", len(program))
	}
	d := &disassembler{arch: arch}
	for pc := 0; pc*instructionSize < len(program); pc++ {
		b := program[pc*instructionSize:]
		in := instruction{
			op: binary.LittleEndian.Uint16(b), jt: b[2], jf: b[3],
			k: binary.LittleEndian.Uint32(b[4:]),
		}
		if err := d.line(pc, in); err != nil {
			return "", err
		}
	}
	return d.out.String(), nil
}

// A disassembler remembers what the accumulator holds, to name numbers.
// Programs jump to comparisons of what was loaded last in the text, or load
// anew, so following the text is enough for a comment.
type disassembler struct {
	arch   string
	loaded string
	out    strings.Builder
}

func (d *disassembler) line(pc int, in instruction) error {
	fmt.Fprintf(&d.out, "%4d  ", pc)
	switch in.op {
	case opLoad:
		d.loaded = field(in.k)
		fmt.Fprintf(&d.out, "load %s\n", d.loaded)
	case opAnd:
		fmt.Fprintf(&d.out, "and 0x%08x\n", in.k)
	case opJump:
		fmt.Fprintf(&d.out, "goto %d\n", pc+1+int(in.k))
	case opReturn:
		fmt.Fprintf(&d.out, "return %s\n", action(in.k))
	case opEqual, opAbove, opAtMost, opBits:
		fmt.Fprintf(&d.out, "if %s 0x%08x%s goto %d else %d\n",
			comparisons[in.op], in.k, d.name(in.k), pc+1+int(in.jt), pc+1+int(in.jf))
	default:
		return fmt.Errorf("cannot disassemble instruction %d: unknown opcode 0x%04x", pc, in.op)
	}
	return nil
}

// The offsets in struct seccomp_data, seccomp(2).
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// field names an offset of struct seccomp_data.
func field(offset uint32) string {
	switch {
	case offset == offsetNumber:
		return "number"
	case offset == offsetArch:
		return "arch"
	case offset >= offsetArgs && offset%8 == 0:
		return fmt.Sprintf("arg%d.low", (offset-offsetArgs)/8)
	case offset >= offsetArgs:
		return fmt.Sprintf("arg%d.high", (offset-offsetArgs)/8)
	}
	return fmt.Sprintf("offset %d", offset)
}

// name is a comment for a number that the table knows by name.
func (d *disassembler) name(k uint32) string {
	if d.loaded == "number" {
		if name, ok := nameOf(d.arch, k); ok {
			return " (" + name + ")"
		}
	}
	if d.loaded == "arch" && k == AuditArch(d.arch) {
		return " (" + d.arch + ")"
	}
	return ""
}

// The filter's results, seccomp(2).
const (
	RetKillProcess = 0x80000000
	RetErrno       = 0x00050000
	RetUserNotif   = 0x7fc00000
	RetAllow       = 0x7fff0000
)

// action names a filter's result.
func action(k uint32) string {
	switch {
	case k == RetKillProcess:
		return "KILL_PROCESS"
	case k == RetAllow:
		return "ALLOW"
	case k == RetUserNotif:
		return "USER_NOTIF"
	case k == RetErrno|uint32(EPERM) || k == RetErrno|uint32(ENOSYS):
		return "ERRNO " + Errno(k&0xffff).String()
	}
	return fmt.Sprintf("0x%08x", k)
}

// AuditArch is the AUDIT_ARCH_ constant of an architecture, linux/audit.h; 0
// for one that has no filter.
func AuditArch(arch string) uint32 {
	switch arch {
	case "amd64":
		return 0xc000003e
	case "arm64":
		return 0xc00000b7
	}
	return 0
}
