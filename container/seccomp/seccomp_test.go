package seccomp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"pinfold/container/seccomp"
)

// profile is the form of the OCI runtime specification, as far as it is used.
type profile struct {
	DefaultAction   string `json:"defaultAction"`
	DefaultErrnoRet uint   `json:"defaultErrnoRet"`
	Architectures   []string
	Syscalls        []rule
}

type rule struct {
	Names    []string
	Action   string
	ErrnoRet uint
	Args     []arg
}

type arg struct {
	Index           uint
	Value, ValueTwo uint64
	Op              string
}

func (a arg) holds(args []uint64) bool {
	v := uint64(0)
	if int(a.Index) < len(args) {
		v = args[a.Index]
	}
	switch a.Op {
	case "SCMP_CMP_MASKED_EQ":
		return v&a.Value == a.ValueTwo
	case "SCMP_CMP_EQ":
		return v == a.Value
	}
	return false
}

// answer is what a call gets: 0 when it is let through.
func (p profile) answer(name string, args ...uint64) uint {
	for _, r := range p.Syscalls {
		if !slices.Contains(r.Names, name) || slices.ContainsFunc(r.Args, func(a arg) bool { return !a.holds(args) }) {
			continue
		}
		if r.Action == "SCMP_ACT_ALLOW" {
			return 0
		}
		return r.ErrnoRet
	}
	return p.DefaultErrnoRet
}

func load(t *testing.T, file string) profile {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var p profile
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	eperm  = 1
	enosys = 38
	high   = 1 << 32 // what the kernel doesn't look at
)

// TestProfile: what the process tier refuses is refused, what docker's default
// refuses is refused, and ordinary programs get what they need.
func TestProfile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("profiles/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("profiles: %v, %v", files, err)
	}
	for _, file := range files {
		p := load(t, file)
		if len(p.Architectures) != 1 || p.DefaultAction != "SCMP_ACT_ERRNO" {
			t.Errorf("%s: %v, default %s", file, p.Architectures, p.DefaultAction)
		}
		for _, c := range []struct {
			name string
			args []uint64
			want uint
		}{
			{"read", nil, 0},
			{"execve", nil, 0},
			{"futex", nil, 0},
			{"prctl", nil, 0},
			{"landlock_restrict_self", nil, 0},
			{"socket", []uint64{1, 1, 0}, 0},
			{"socket", []uint64{1, 1 | 0o2000000, 0}, 0}, // SOCK_CLOEXEC
			{"socket", []uint64{1, 5, 0}, 0},
			{"socket", []uint64{2, 1, 6}, 0},
			{"socket", []uint64{10, 2, 0}, 0},
			{"socket", []uint64{16, 3, 0}, 0},
			{"socket", []uint64{1, 2, 0}, eperm},   // a datagram to any socket
			{"socket", []uint64{1, 3, 0}, eperm},   // the same
			{"socket", []uint64{2, 3, 1}, eperm},   // raw
			{"socket", []uint64{16, 3, 12}, eperm}, // netfilter
			{"socket", []uint64{17, 3, 0}, eperm},  // packets
			{"socket", []uint64{38, 5, 0}, eperm},  // the kernel's crypto
			{"socket", []uint64{40, 1, 0}, eperm},  // vsock, past the network namespace
			{"socket", []uint64{high | 40, 1, 0}, eperm},
			{"ioctl", []uint64{0, 0x5401}, 0}, // TCGETS
			{"ioctl", []uint64{0, 0x5413}, 0}, // TIOCGWINSZ, beside TIOCSTI
			{"ioctl", []uint64{0, 0xffffffff}, 0},
			{"ioctl", []uint64{0, 0x5412}, eperm},
			{"ioctl", []uint64{0, high | 0x5412}, eperm},
			{"ioctl", []uint64{0, 0x541c}, eperm},
			{"clone", []uint64{0x3d0f00}, 0}, // a thread
			{"clone", []uint64{0x10000000}, eperm},
			{"clone3", nil, enosys},
			{"io_uring_setup", nil, enosys},
			{"open_tree", nil, enosys},
			{"prlimit64", []uint64{0, 7, 1}, 0}, // one's own limits
			{"prlimit64", []uint64{1, 7, 1}, eperm},
			{"prlimit64", []uint64{high | 1, 7, 1}, eperm},
			{"fchmod", []uint64{3, 0o2775}, 0},
			{"fchmod", []uint64{3, 0o4755}, eperm},
			{"fchmodat", []uint64{3, 0, 0o755}, 0},
			{"fchmodat", []uint64{3, 0, high | 0o6755}, eperm},
			{"fchmodat2", []uint64{3, 0, 0o4000, 0}, eperm},
			{"personality", []uint64{0xffffffff}, 0},
			{"personality", []uint64{0x0040000}, eperm}, // no address randomisation
			{"unshare", nil, eperm},
			{"setns", nil, eperm},
			{"mount", nil, eperm},
			{"bpf", nil, eperm},
			{"keyctl", nil, eperm},
			{"userfaultfd", nil, eperm},
			{"perf_event_open", nil, eperm},
			{"open_by_handle_at", nil, eperm},
			{"init_module", nil, eperm},
			{"a_call_of_tomorrow", nil, eperm},
		} {
			if got := p.answer(c.name, c.args...); got != c.want {
				t.Errorf("%s: %s%x answers %d, wanted %d", file, c.name, c.args, got, c.want)
			}
		}
	}
}

// TestEmbedded: the build has its own architecture's, and no other passes for
// it.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	got, err := seccomp.Profile(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("profiles/" + runtime.GOARCH + ".json")
	if err != nil || string(got) != string(want) {
		t.Errorf("it isn't the file's: %v", err)
	}
	for _, other := range []string{"", "riscv64", "amd64", "arm64"} {
		if p, err := seccomp.Profile(other); other != runtime.GOARCH && (err == nil || p != nil) {
			t.Errorf("%q has a profile of %d bytes", other, len(p))
		}
	}
}
