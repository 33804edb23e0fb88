package image

import (
	"encoding/binary"
	"fmt"
)

// Trial is an image that holds nothing but a program /bin/true: with it, a
// machine can be asked whether it runs containers.
func Trial(arch string) (Plain, error) {
	machine, code, err := exitCode(arch)
	if err != nil {
		return Plain{}, err
	}
	return Plain{
		Name: "localhost/pinfold/trial:1", Architecture: arch,
		Files: map[string]File{"bin/true": {Mode: 0o755, Content: program(machine, code)}},
	}, nil
}

// exitCode is exit(0) in machine code, and the machine as elf(5) numbers it.
func exitCode(arch string) (machine uint16, code []byte, err error) {
	switch arch {
	case "amd64":
		return 62, []byte{
			0xb8, 60, 0, 0, 0, // mov eax, 60
			0x31, 0xff, // xor edi, edi
			0x0f, 0x05, // syscall
		}, nil
	case "arm64":
		return 183, []byte{
			0xa8, 0x0b, 0x80, 0xd2, // mov x8, #93
			0x00, 0x00, 0x80, 0xd2, // mov x0, #0
			0x01, 0x00, 0x00, 0xd4, // svc #0
		}, nil
	}
	return 0, nil, fmt.Errorf("cannot make a program for %q", arch)
}

// program is a static ELF executable of one segment, elf(5).
func program(machine uint16, code []byte) []byte {
	const base, headers = 0x400000, 64 + 56
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	u16 := func(v uint16) { b = binary.LittleEndian.AppendUint16(b, v) }
	u32 := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	u64 := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	u16(2) // executable
	u16(machine)
	u32(1)
	u64(base + headers) // entry
	u64(64)             // program headers
	u64(0)
	u32(0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		u16(v)
	}
	u32(1) // load
	u32(5) // readable and executable
	u64(0)
	u64(base)
	u64(base)
	u64(uint64(headers + len(code)))
	u64(uint64(headers + len(code)))
	u64(0x1000)
	return append(b, code...)
}
