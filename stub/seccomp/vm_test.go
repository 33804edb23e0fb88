package seccomp_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"

	"pinfold/stub/seccomp"
)

// A filter is a program in an interpreter, so that each architecture's is
// tested on any machine.
type filter struct {
	vm   *bpf.VM
	arch string
}

func load(tb testing.TB, arch string, mode seccomp.Mode) filter {
	tb.Helper()
	program, err := seccomp.Program(arch, mode)
	if err != nil {
		tb.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for b := program; len(b) >= 8; b = b[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:]),
		})
	}
	list, all := bpf.Disassemble(raw)
	if !all {
		tb.Fatal("an instruction that the interpreter doesn't know")
	}
	vm, err := bpf.NewVM(list)
	if err != nil {
		tb.Fatal(err)
	}
	return filter{vm: vm, arch: arch}
}

// run is the filter's result for a call. The interpreter reads words as big
// endian, so struct seccomp_data is laid out word by word.
func (f filter) run(tb testing.TB, auditArch, number uint32, args ...uint64) uint32 {
	tb.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[0:], number)
	binary.BigEndian.PutUint32(data[4:], auditArch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	out, err := f.vm.Run(data)
	if err != nil {
		tb.Fatal(err)
	}
	return uint32(out)
}

// call runs a call of the filter's own architecture, by name.
func (f filter) call(tb testing.TB, name string, args ...uint64) uint32 {
	tb.Helper()
	number, ok := seccomp.Number(f.arch, name)
	if !ok {
		tb.Fatalf("%s has no number on %s", name, f.arch)
	}
	return f.run(tb, seccomp.AuditArch(f.arch), number, args...)
}

// each runs a test for each program.
func each(t *testing.T, test func(t *testing.T, f filter, mode seccomp.Mode)) {
	t.Helper()
	for _, arch := range seccomp.Arches() {
		for _, mode := range seccomp.All() {
			t.Run(fmt.Sprintf("%s/%s", arch, mode), func(t *testing.T) {
				t.Parallel()
				test(t, load(t, arch, mode), mode)
			})
		}
	}
}

const (
	allow  = seccomp.RetAllow
	kill   = seccomp.RetKillProcess
	eperm  = seccomp.RetErrno | uint32(seccomp.EPERM)
	enosys = seccomp.RetErrno | uint32(seccomp.ENOSYS)
	notify = seccomp.RetUserNotif
	high   = 1 << 32 // a bit that the kernel doesn't look at
)

func TestArchitecture(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f filter, _ seccomp.Mode) {
		own := seccomp.AuditArch(f.arch)
		for name, foreign := range map[string]uint32{
			"i386": 0x40000003, "arm": 0x40000028, "riscv64": 0xc00000f3, "none": 0, "all": 0xffffffff,
			"amd64": seccomp.AuditArch("amd64"), "arm64": seccomp.AuditArch("arm64"),
		} {
			for _, number := range []uint32{0, 41, 198, 400, 0xffffffff} {
				if got := f.run(t, foreign, number); foreign != own && got != kill {
					t.Errorf("%s, call %d: 0x%x, wanted KILL_PROCESS", name, number, got)
				}
			}
		}
	})
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f filter, _ seccomp.Mode) {
		x32 := uint32(enosys)
		if f.arch == "amd64" {
			x32 = kill
		}
		for number, want := range map[uint32]uint32{
			0:                  allow,
			450:                allow,
			seccomp.Newest:     allow,
			seccomp.Newest + 1: enosys,
			512:                enosys, // amd64 had x32's calls here, callable as native (before Linux 5.4)
			0x3fffffff:         enosys,
			0x40000000:         x32,
			0x40000000 + 41:    x32,
			0x7fffffff:         x32,
			0x80000000:         x32,
			0xfffffffe:         x32,
			0xffffffff:         allow, // a tracer took the call back
		} {
			if got := f.run(t, seccomp.AuditArch(f.arch), number); got != want {
				t.Errorf("call 0x%x: 0x%x, wanted 0x%x", number, got, want)
			}
		}
	})
}

// The calls a reviewer would try, spelled out by hand: the table isn't asked.
func TestCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f filter, mode seccomp.Mode) {
		if mode == seccomp.Notify || mode == seccomp.Inner {
			return // TestHandOver, TestInner
		}
		unix, diag := uint32(eperm), uint32(eperm)
		if mode == seccomp.Unix || mode == seccomp.Listed {
			unix = allow
		}
		if mode == seccomp.Listed {
			diag = allow
		}
		for _, tc := range []struct {
			name string
			args []uint64
			want uint32
		}{
			{"socket", []uint64{1, 1, 0}, unix},
			{"socket", []uint64{1, 5, 0}, unix},
			{"socket", []uint64{1, 1 | 0x80800, 0}, unix},
			{"socket", []uint64{1, 2, 0}, eperm},
			{"socket", []uint64{1, 2 | 0x80000, 0}, eperm},
			{"socket", []uint64{1, 3, 0}, eperm},
			{"socket", []uint64{high | 1, 2, 0}, eperm},
			{"socket", []uint64{1, high | 2, 0}, eperm},
			{"socket", []uint64{high | 1, 1, 0}, unix},
			{"socket", []uint64{2, 1, 0}, allow},
			{"socket", []uint64{2, 1 | 0x80800, 6}, allow},
			{"socket", []uint64{2, 2, 17}, allow},
			{"socket", []uint64{2, 2, 1}, allow},
			{"socket", []uint64{2, 1, 262}, allow},
			{"socket", []uint64{2, 3, 255}, eperm},
			{"socket", []uint64{2, 3, 1}, eperm},
			{"socket", []uint64{2, 5, 132}, eperm},
			{"socket", []uint64{2, 1, 132}, eperm},
			{"socket", []uint64{2, 6, 33}, eperm},
			{"socket", []uint64{2, 2, 115}, eperm},
			{"socket", []uint64{2, 1, 256}, eperm},
			{"socket", []uint64{2, high | 3, 255}, eperm},
			{"socket", []uint64{2, 1, high}, allow},
			{"socket", []uint64{0xffffffff00000002, 0xffffffff00000001, 0}, allow},
			{"socket", []uint64{10, 1, 0}, allow},
			{"socket", []uint64{10, 2, 58}, allow},
			{"socket", []uint64{10, 3, 58}, eperm},
			{"socket", []uint64{16, 3, 0}, allow},
			{"socket", []uint64{16, 2 | 0x80000, 0}, allow},
			{"socket", []uint64{16, 3, 4}, diag},
			{"socket", []uint64{16, 3 | 0x80000, high | 4}, diag},
			{"socket", []uint64{16, 3, 15}, eperm},
			{"socket", []uint64{16, 3, 16}, eperm},
			{"socket", []uint64{16, 3, high | 12}, eperm},
			{"socket", []uint64{0, 1, 0}, eperm},
			{"socket", []uint64{17, 3, 0}, eperm},
			{"socket", []uint64{38, 5, 0}, eperm},
			{"socket", []uint64{40, 1, 0}, eperm},
			{"socket", []uint64{43, 1, 0}, eperm},
			{"socket", []uint64{1000, 1, 0}, eperm},
			{"socket", []uint64{0xffffffff, 1, 0}, eperm},
			{"socketpair", []uint64{1, 1, 0}, allow},
			{"socketpair", []uint64{1, 5 | 0x80800, 0}, allow},
			{"socketpair", []uint64{1, 2, 0}, eperm},
			{"socketpair", []uint64{1, 3, 0}, eperm},
			{"socketpair", []uint64{high | 1, high | 2, 0}, eperm},
			{"socketpair", []uint64{2, 1, 0}, allow},
			{"socketpair", []uint64{16, 3, 0}, eperm},
			{"socketpair", []uint64{30, 1, 0}, eperm},
			{"clone", []uint64{0x11}, allow},       // fork
			{"clone", []uint64{0x3d0f00}, allow},   // a glibc thread
			{"clone", []uint64{0x4111}, allow},     // vfork
			{"clone", []uint64{0x10000011}, eperm}, // NEWUSER
			{"clone", []uint64{0x20000}, eperm},    // NEWNS
			{"clone", []uint64{0x7e020000}, eperm}, // all
			{"clone", []uint64{high | 0x10000000}, eperm},
			{"clone", []uint64{high<<10 | 0x11}, allow},
			{"clone3", []uint64{0, 0}, enosys},
			{"unshare", []uint64{0x400}, eperm},
			{"setns", []uint64{3, 0}, eperm},
			{"ioctl", []uint64{0, 0x5412}, eperm},
			{"ioctl", []uint64{0, high | 0x5412}, eperm},
			{"ioctl", []uint64{0, high<<20 | 0x541c}, eperm},
			{"ioctl", []uint64{0, 0x5413}, allow},
			{"ioctl", []uint64{0x5412, 0x5401}, allow},
			{"personality", []uint64{0}, allow},
			{"personality", []uint64{8}, allow},
			{"personality", []uint64{0xffffffff}, allow},
			{"personality", []uint64{0xffffffffffffffff}, allow},
			{"personality", []uint64{0x40000}, eperm},
			{"personality", []uint64{0x400000}, eperm},
			{"personality", []uint64{high | 0x40000}, eperm},
			{"personality", []uint64{0x100000}, eperm},
			{"fchmod", []uint64{3, 0o755}, allow},
			{"fchmod", []uint64{3, 0o2775}, allow},
			{"fchmod", []uint64{3, 0o4755}, eperm},
			{"fchmod", []uint64{0o4755, 0}, allow},
			{"fchmodat", []uint64{3, 0, 0o6755}, eperm},
			{"fchmodat", []uint64{3, 0o4000, high | 0o755}, allow},
			{"fchmodat2", []uint64{3, 0, high | 0o4000, 0}, eperm},
			{"openat", []uint64{3, 0, 0, 0o4755}, allow},
			{"openat", []uint64{3, 0, 0o101, 0o2755}, allow},
			{"openat", []uint64{3, 0, 0o101, 0o4755}, eperm},
			{"openat", []uint64{3, 0, high | 0o100, high | 0o4000}, eperm},
			{"openat", []uint64{3, 0, 0o20200002, 0o6755}, eperm}, // O_TMPFILE
			{"openat", []uint64{3, 0, 0o200000, 0o4755}, allow},   // O_DIRECTORY
			{"openat", []uint64{0o100, 0o4000, 0, 0}, allow},
			{"mknodat", []uint64{3, 0, 0o100755}, allow},
			{"mknodat", []uint64{3, 0, 0o104755}, eperm},
			{"openat2", nil, enosys},
			{"io_uring_setup", nil, enosys},
			{"mount", nil, eperm},
			{"fsopen", nil, enosys},
			{"open_tree_attr", nil, enosys},
			{"bpf", nil, eperm},
			{"keyctl", nil, eperm},
			{"open_by_handle_at", nil, eperm},
			{"syslog", nil, eperm},
		} {
			if got := f.call(t, tc.name, tc.args...); got != tc.want {
				t.Errorf("%s%#x: 0x%x, wanted 0x%x", tc.name, tc.args, got, tc.want)
			}
		}
	})
}

// The inner program answers one call, and leaves all others to the engine's.
func TestInner(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Arches() {
		f := load(t, arch, seccomp.Inner)
		for name, want := range map[string]uint32{"openat2": enosys, "openat": allow, "mount": allow, "connect": allow, "clone3": allow} {
			if got := f.call(t, name, 3, 0, 0o101, 0o4755); got != want {
				t.Errorf("%s: %s: 0x%x, wanted 0x%x", arch, name, got, want)
			}
		}
	}
}

// The second program hands over every connect, and leaves the rest to the
// first, less what would go round it.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Arches() {
		f := load(t, arch, seccomp.Notify)
		for _, tc := range []struct {
			name string
			args []uint64
			want uint32
		}{
			{"connect", nil, notify},
			{"connect", []uint64{3, 0x7ffe0000, 16}, notify},
			{"connect", []uint64{0xffffffffffffffff, 0xffffffffffffffff, high}, notify},
			{"socket", []uint64{1, 1, 0}, allow},
			{"socket", []uint64{16, 3, 0}, allow},
			{"socket", []uint64{16, 3, 4}, eperm},
			{"socket", []uint64{high | 16, 2 | 0x80000, high | 4}, eperm},
			{"socket", []uint64{2, 1, 4}, allow},
			{"sendto", []uint64{3, 1, 1, 0, 1, 16}, allow},
			{"sendto", []uint64{3, 1, 1, 0x20000000, 1, 16}, eperm},
			{"sendto", []uint64{3, 1, 1, high | 0x20004000, 1, 16}, eperm},
			{"sendmsg", []uint64{3, 1, 0x4000}, allow},
			{"sendmsg", []uint64{3, 1, 0x20000000}, eperm},
			{"sendmmsg", []uint64{3, 1, 2, 0x40}, allow},
			{"sendmmsg", []uint64{3, 1, 2, 0x20000040}, eperm},
			{"ioctl", []uint64{0, 0x5412}, allow},
		} {
			if got := f.call(t, tc.name, tc.args...); got != tc.want {
				t.Errorf("%s: %s%#x: 0x%x, wanted 0x%x", arch, tc.name, tc.args, got, tc.want)
			}
		}
	}
}

// Calls that a debugger, a nested sandbox or a program's own sandbox needs.
func TestAllowed(t *testing.T) {
	t.Parallel()
	allowed := map[string]map[string]uint32{
		"amd64": {
			"ptrace": 101, "seccomp": 317, "landlock_create_ruleset": 444, "landlock_restrict_self": 446,
			"process_vm_readv": 310, "pidfd_getfd": 438, "pidfd_open": 434, "name_to_handle_at": 303, "prctl": 157,
			"vmsplice": 278, "kcmp": 312, "modify_ldt": 154, "chroot": 161, "statmount": 457, "listmount": 458,
			"memfd_create": 319, "close_range": 436, "futex_waitv": 449, "rseq": 334, "execveat": 322,
		},
		"arm64": {
			"ptrace": 117, "seccomp": 277, "landlock_create_ruleset": 444, "landlock_restrict_self": 446,
			"process_vm_readv": 270, "pidfd_getfd": 438, "pidfd_open": 434, "name_to_handle_at": 264, "prctl": 167,
			"vmsplice": 75, "kcmp": 272, "chroot": 51, "statmount": 457, "listmount": 458, "memfd_create": 279,
		},
	}
	each(t, func(t *testing.T, f filter, _ seccomp.Mode) {
		for name, number := range allowed[f.arch] {
			if got := f.run(t, seccomp.AuditArch(f.arch), number, 1, 1, 1, 1, 1, 1); got != allow {
				t.Errorf("%s: 0x%x, wanted ALLOW", name, got)
			}
		}
	})
}

// The program does what the table says, for every call and for arguments
// drawn around every value that the table names.
func TestProgramIsTheTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f filter, mode seccomp.Mode) {
		rules := map[uint32][]seccomp.Rule{}
		for _, r := range seccomp.Rules(f.arch, mode) {
			number, ok := seccomp.Number(f.arch, r.Syscall)
			if !ok {
				t.Fatalf("%s has no number", r.Syscall)
			}
			rules[number] = append(rules[number], r)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for number := range uint32(seccomp.Newest + 1) {
			tries := 20
			if len(rules[number]) > 0 {
				tries = 20000
			}
			for range tries {
				args := draw(random)
				want := expected(rules[number], args)
				if got := f.run(t, seccomp.AuditArch(f.arch), number, args[:]...); got != want {
					t.Fatalf("call %d%#x: 0x%x, wanted 0x%x", number, args, got, want)
				}
			}
		}
	})
}

func expected(rules []seccomp.Rule, args [6]uint64) uint32 {
	for _, r := range rules {
		if r.Matches(args) && r.HandOver {
			return notify
		}
		if r.Matches(args) {
			return seccomp.RetErrno | uint32(r.Answer)
		}
	}
	return allow
}

// draw makes arguments that are near what filters compare: small numbers,
// numbers that differ from them in one bit, and garbage above.
func draw(random *rand.Rand) (args [6]uint64) {
	named := []uint64{0, 1, 2, 3, 5, 6, 8, 10, 16, 17, 40, 58, 262, 0x5412, 0x541c, 0x20000, 0x20008, 0x10000011, 0x20000000, 4, 0xffffffff}
	for i := range args {
		v := named[random.IntN(len(named))]
		switch random.IntN(4) {
		case 0:
			v ^= 1 << random.IntN(32)
		case 1:
			v = random.Uint64()
		}
		if random.IntN(3) == 0 {
			v ^= random.Uint64() << 32
		}
		args[i] = v
	}
	return args
}
