package seccomp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/seccomp"
)

// childMode makes the test binary a child that loads a filter, which can't be
// undone, and tries the calls. Its value is the mode, or unfiltered.
const (
	childMode  = "PINFOLD_SECCOMP_CHILD"
	unfiltered = "unfiltered"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// child tries the calls of the probes and prints their errnos, or becomes the
// program it is given.
func child(mode string, argv []string) int {
	runtime.LockOSThread()
	if mode != unfiltered {
		if err := loadFilter(seccomp.Mode(mode)); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if len(argv) > 0 && argv[0] == "x32" {
		_, _, errno := unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0)
		fmt.Println("x32 getpid:", int(errno))
		return 0
	}
	if len(argv) > 0 {
		fmt.Println(unix.Exec(argv[0], argv, nil))
		return 1
	}
	for _, p := range probes() {
		_, _, errno := unix.RawSyscall6(p.number, p.args[0], p.args[1], p.args[2], p.args[3], p.args[4], p.args[5])
		fmt.Printf("%s\t%d\n", p.name, errno)
	}
	return 0
}

func loadFilter(mode seccomp.Mode) error {
	program, err := seccomp.Program(runtime.GOARCH, mode)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// A probe is one call with arguments that do no harm where it is let through.
type probe struct {
	name   string
	number uintptr
	args   [6]uintptr
	want   unix.Errno // what the base filter answers; 0: what the kernel does
	// root: an ordinary user gets the same answer without the filter.
	root bool
	// unix: the mode that allows unix sockets lets it through.
	unix bool
}

// bad is an address that holds nothing: the kernel answers EFAULT where it
// gets as far as reading it.
const bad = 1

// garbage stands above the 32 bits that the kernel looks at.
const garbage = 0xdead << 32

func probes() []probe {
	list := []probe{
		{name: "inet stream", number: unix.SYS_SOCKET, args: [6]uintptr{2, 1, 0}},
		{name: "inet dgram cloexec", number: unix.SYS_SOCKET, args: [6]uintptr{2, 2 | unix.SOCK_CLOEXEC, 17}},
		{name: "inet with garbage", number: unix.SYS_SOCKET, args: [6]uintptr{garbage | 2, garbage | 1, garbage}},
		{name: "inet6 stream", number: unix.SYS_SOCKET, args: [6]uintptr{10, 1, 0}},
		{name: "mptcp", number: unix.SYS_SOCKET, args: [6]uintptr{2, 1, 262}},
		{name: "netlink route", number: unix.SYS_SOCKET, args: [6]uintptr{16, 3 | unix.SOCK_CLOEXEC, 0}},
		{name: "personality query", number: unix.SYS_PERSONALITY, args: [6]uintptr{0xffffffff}},
		{name: "TCGETS", number: unix.SYS_IOCTL, args: [6]uintptr{999, unix.TCGETS, bad}},
		{name: "ptrace", number: unix.SYS_PTRACE, args: [6]uintptr{unix.PTRACE_ATTACH, 1 << 30}},
		{name: "landlock", number: unix.SYS_LANDLOCK_CREATE_RULESET, args: [6]uintptr{0, 0, 1}},
		{name: "seccomp", number: unix.SYS_SECCOMP, args: [6]uintptr{99}},
		{name: "memfd", number: unix.SYS_MEMFD_CREATE, args: [6]uintptr{bad}},
		{name: "pidfd", number: unix.SYS_PIDFD_OPEN, args: [6]uintptr{uintptr(os.Getpid())}},
		{name: "fork flags", number: unix.SYS_CLONE, args: [6]uintptr{unix.CLONE_THREAD}}, // EINVAL
		{name: "openat", number: unix.SYS_OPENAT, args: [6]uintptr{0, bad, unix.O_CREAT, 0o2755}},
		{name: "openat with a mode that doesn't count", number: unix.SYS_OPENAT, args: [6]uintptr{0, bad, 0, 0o4755}},
		{name: "mknodat", number: unix.SYS_MKNODAT, args: [6]uintptr{0, bad, unix.S_IFREG | 0o755}},

		{name: "unix stream", number: unix.SYS_SOCKET, args: [6]uintptr{1, 1, 0}, want: unix.EPERM, unix: true},
		{name: "unix seqpacket", number: unix.SYS_SOCKET, args: [6]uintptr{1, 5 | unix.SOCK_NONBLOCK, 0}, want: unix.EPERM, unix: true},
		{name: "unix stream garbage", number: unix.SYS_SOCKET, args: [6]uintptr{garbage | 1, 1, 0}, want: unix.EPERM, unix: true},
		{name: "unix dgram", number: unix.SYS_SOCKET, args: [6]uintptr{1, 2, 0}, want: unix.EPERM},
		{name: "unix raw", number: unix.SYS_SOCKET, args: [6]uintptr{1, 3, 0}, want: unix.EPERM},
		{name: "unix dgram garbage", number: unix.SYS_SOCKET, args: [6]uintptr{garbage | 1, garbage | 2, 0}, want: unix.EPERM},
		{name: "netlink audit", number: unix.SYS_SOCKET, args: [6]uintptr{16, 3, 9}, want: unix.EPERM},
		{name: "netlink generic", number: unix.SYS_SOCKET, args: [6]uintptr{16, 3, garbage | 16}, want: unix.EPERM},
		{name: "vsock", number: unix.SYS_SOCKET, args: [6]uintptr{40, 1, 0}, want: unix.EPERM},
		{name: "alg", number: unix.SYS_SOCKET, args: [6]uintptr{38, 5, 0}, want: unix.EPERM},
		{name: "sctp", number: unix.SYS_SOCKET, args: [6]uintptr{2, 1, 132}, want: unix.EPERM},
		{name: "raw", number: unix.SYS_SOCKET, args: [6]uintptr{2, 3, 255}, want: unix.EPERM, root: true},
		{name: "packet", number: unix.SYS_SOCKET, args: [6]uintptr{17, 3, 0}, want: unix.EPERM, root: true},
		{name: "TIOCSTI", number: unix.SYS_IOCTL, args: [6]uintptr{999, unix.TIOCSTI, bad}, want: unix.EPERM},
		{name: "TIOCSTI garbage", number: unix.SYS_IOCTL, args: [6]uintptr{999, garbage | unix.TIOCSTI, bad}, want: unix.EPERM},
		{name: "TIOCLINUX", number: unix.SYS_IOCTL, args: [6]uintptr{999, 0x541c, bad}, want: unix.EPERM},
		{name: "no randomisation", number: unix.SYS_PERSONALITY, args: [6]uintptr{0x40000}, want: unix.EPERM},
		{name: "openat S_ISUID", number: unix.SYS_OPENAT, args: [6]uintptr{0, bad, unix.O_CREAT | unix.O_WRONLY, 0o4755}, want: unix.EPERM},
		{name: "openat S_ISUID garbage", number: unix.SYS_OPENAT, args: [6]uintptr{0, bad, garbage | unix.O_CREAT, garbage | 0o4000}, want: unix.EPERM},
		{name: "openat O_TMPFILE S_ISUID", number: unix.SYS_OPENAT, args: [6]uintptr{0, bad, unix.O_TMPFILE | unix.O_RDWR, 0o4755}, want: unix.EPERM},
		{name: "mknodat S_ISUID", number: unix.SYS_MKNODAT, args: [6]uintptr{0, bad, unix.S_IFREG | 0o4755}, want: unix.EPERM},
		{name: "openat2", number: unix.SYS_OPENAT2, args: [6]uintptr{0, bad, bad, 24}, want: unix.ENOSYS},
		{name: "newest and one", number: seccomp.Newest + 1, want: unix.ENOSYS, root: true},
	}
	list = append(list, pairs()...)
	list = append(list, namespaces()...)
	return append(list, named()...)
}

// pairs are socketpairs. The descriptors stay open till the child ends.
func pairs() []probe {
	var list []probe
	for name, p := range map[string]struct {
		kind uintptr
		want unix.Errno
	}{
		"stream": {1, 0}, "seqpacket": {5 | unix.SOCK_CLOEXEC, 0}, "dgram": {2, unix.EPERM},
		"raw": {3, unix.EPERM}, "dgram garbage": {garbage | 2, unix.EPERM},
	} {
		fds := new([2]int32)
		list = append(list, probe{
			name: "pair " + name, number: unix.SYS_SOCKETPAIR, want: p.want,
			args: [6]uintptr{1, p.kind, 0, uintptr(unsafe.Pointer(fds))},
		})
	}
	return list
}

// namespaces are clone flags. CLONE_THREAD without CLONE_SIGHAND is EINVAL
// before anything is made.
func namespaces() []probe {
	var list []probe
	for _, flag := range []uintptr{
		unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
		unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET, garbage | unix.CLONE_NEWUSER,
	} {
		list = append(list, probe{
			name: fmt.Sprintf("clone %#x", flag), number: unix.SYS_CLONE,
			args: [6]uintptr{flag | unix.CLONE_THREAD}, want: unix.EPERM,
		})
	}
	return list
}

// named are the calls that are refused whatever their arguments, with ones
// that the kernel itself refuses otherwise.
func named() []probe {
	eperm := map[string]probe{
		"unshare":           {args: [6]uintptr{unix.CLONE_FILES}},
		"setns":             {args: [6]uintptr{999}},
		"mount":             {args: [6]uintptr{bad, bad, bad, 0, bad}},
		"umount2":           {args: [6]uintptr{bad}},
		"pivot_root":        {args: [6]uintptr{bad, bad}, root: true},
		"open_by_handle_at": {args: [6]uintptr{999, bad}, root: true},
		"kexec_load":        {args: [6]uintptr{0, 0, 0, 0xffff}, root: true},
		"kexec_file_load":   {args: [6]uintptr{999, 999, 0, 0, 0xffff}, root: true},
		"init_module":       {args: [6]uintptr{bad, 1, bad}, root: true},
		"finit_module":      {args: [6]uintptr{999, bad, 0xffff}, root: true},
		"delete_module":     {args: [6]uintptr{bad}, root: true},
		"reboot":            {root: true}, // no magic, EINVAL
		"swapon":            {args: [6]uintptr{bad}, root: true},
		"swapoff":           {args: [6]uintptr{bad}, root: true},
		"acct":              {args: [6]uintptr{bad}, root: true},
		"quotactl":          {args: [6]uintptr{0xffff, bad}},
		"quotactl_fd":       {args: [6]uintptr{999, 0xffff}},
		"syslog":            {args: [6]uintptr{99}, root: true},
		"keyctl":            {args: [6]uintptr{999}},
		"add_key":           {args: [6]uintptr{bad, bad}},
		"request_key":       {args: [6]uintptr{bad, bad}},
		"bpf":               {args: [6]uintptr{0xffff, bad, 8}, root: true},
		"perf_event_open":   {args: [6]uintptr{bad}},
		"userfaultfd":       {args: [6]uintptr{0xffff0000}, root: true},
		"iopl":              {args: [6]uintptr{99}},
		"ioperm":            {args: [6]uintptr{0xffffffff, 0xffff}},
	}
	var list []probe
	for name, p := range eperm {
		p.want = unix.EPERM
		list = addNamed(list, name, p)
	}
	for _, name := range []string{
		"clone3", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
		"mount_setattr", "io_uring_setup", "io_uring_enter", "io_uring_register",
	} {
		list = addNamed(list, name, probe{args: [6]uintptr{999, bad, bad, bad, bad, bad}, want: unix.ENOSYS})
	}
	return addNamed(list, "open_tree_attr", probe{args: [6]uintptr{999, bad, bad}, want: unix.ENOSYS, root: true})
}

func addNamed(list []probe, name string, p probe) []probe {
	number, ok := seccomp.Number(runtime.GOARCH, name)
	if !ok {
		return list // iopl and ioperm are amd64's
	}
	p.name, p.number = name, uintptr(number)
	return append(list, p)
}

// Each call is refused with its answer, or reaches the kernel as without the
// filter; and what is refused would have reached it.
func TestLoaded(t *testing.T) {
	t.Parallel()
	control := outcomes(t, unfiltered)
	for _, mode := range seccomp.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			got := outcomes(t, string(mode))
			for _, p := range probes() {
				if p.want == 0 || p.unix && mode != seccomp.Base {
					if got[p.name] != control[p.name] {
						t.Errorf("%s: %v, but %v without the filter", p.name, got[p.name], control[p.name])
					}
					continue
				}
				if got[p.name] != p.want {
					t.Errorf("%s: %v, wanted %v", p.name, got[p.name], p.want)
				}
				if control[p.name] == p.want && (!p.root || os.Getuid() == 0) && !isAbsent(p, control) {
					t.Errorf("%s: %v without the filter too, so this proves nothing", p.name, p.want)
				}
			}
		})
	}
}

// isAbsent says whether the kernel was built without the call, or hasn't got
// it yet.
func isAbsent(p probe, control map[string]unix.Errno) bool {
	return p.want == unix.ENOSYS && control[p.name] == unix.ENOSYS &&
		(p.number > seccomp.Newest || strings.HasPrefix(p.name, "io_uring") || p.name == "open_tree_attr")
}

// outcomes are the probes' errnos in a child of that mode.
func outcomes(t *testing.T, mode string) map[string]unix.Errno {
	t.Helper()
	out, err := runChild(t, mode)
	if err != nil {
		t.Fatalf("%s: %v: %s", mode, err, out)
	}
	m := map[string]unix.Errno{}
	for line := range strings.Lines(out) {
		name, errno, _ := strings.Cut(strings.TrimSpace(line), "\t")
		n, err := strconv.Atoi(errno)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		m[name] = unix.Errno(n)
	}
	if len(m) != len(probes()) {
		t.Fatalf("%s: %d outcomes of %d probes", mode, len(m), len(probes()))
	}
	return m
}

func runChild(t *testing.T, mode string, argv ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, argv...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// isKilled says whether a child died of the filter.
func isKilled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGSYS
}

// The filter sees x32's numbers whether or not the kernel has the ABI.
func TestLoadedKillsX32(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 is amd64's")
	}
	for _, mode := range seccomp.Modes() {
		if out, err := runChild(t, string(mode), "x32"); !isKilled(err) {
			t.Errorf("%s: %v, wanted SIGSYS: %s", mode, err, out)
		}
	}
	if out, err := runChild(t, unfiltered, "x32"); err != nil {
		t.Errorf("unfiltered: %v: %s", err, out)
	}
}

// A 64-bit program may enter the kernel by int 0x80 at any time: as i386.
func TestLoadedKillsI386(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("i386 is amd64's")
	}
	path := filepath.Join(t.TempDir(), "int80")
	if err := os.WriteFile(path, int80Program(), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := runChild(t, unfiltered, path); err != nil {
		t.Skipf("the kernel has no i386 calls: %v: %s", err, out)
	}
	for _, mode := range seccomp.Modes() {
		if out, err := runChild(t, string(mode), path); !isKilled(err) {
			t.Errorf("%s: %v, wanted SIGSYS: %s", mode, err, out)
		}
	}
}

// int80Program is the smallest ELF program that calls i386's exit(0).
func int80Program() []byte {
	code := []byte{
		0xb8, 1, 0, 0, 0, // mov eax, 1
		0x31, 0xdb, // xor ebx, ebx
		0xcd, 0x80, // int 0x80
	}
	const base, headers = 0x400000, 64 + 56
	var b bytes.Buffer
	for _, v := range []any{
		[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		[]uint16{2, 62},
		uint32(1), // an executable for x86-64
		[]uint64{base + headers, 64, 0},
		uint32(0), // entry, program headers
		[]uint16{64, 56, 1, 0, 0, 0},
		[]uint32{1, 5}, // PT_LOAD, r-x
		[]uint64{0, base, base, headers + uint64(len(code)), headers + uint64(len(code)), 0x1000},
		code,
	} {
		_ = binary.Write(&b, binary.LittleEndian, v) // a buffer takes all
	}
	return b.Bytes()
}

// Threads, children and their pipes work under the filter.
func TestLoadedShellWorks(t *testing.T) {
	t.Parallel()
	for _, mode := range seccomp.Modes() {
		out, err := runChild(t, string(mode), "/bin/sh", "-c", "echo a | cat; (echo b); /bin/ls / >/dev/null && echo c")
		if err != nil || out != "a\nb\nc\n" {
			t.Errorf("%s: %v: %q", mode, err, out)
		}
	}
}
