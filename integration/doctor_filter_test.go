//go:build linux

package integration_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterVariable makes the test binary a launcher: it refuses the calls of the
// set that is named, as a container's profile would, and becomes what its
// arguments say.
const filterVariable = "PINFOLD_TEST_FILTER"

// refusal is one call that a filter refuses, where its first argument has one
// of the bits (0: always). Without an errno the process is ended.
type refusal struct {
	call  uint32
	errno unix.Errno
	bits  uint32
}

const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filterSets are the profiles that the tests run under. What docker's default
// one refuses, and how, is in moby's profiles/seccomp.
var filterSets = map[string][]refusal{
	"namespaces": {
		{unix.SYS_UNSHARE, unix.EPERM, 0},
		{unix.SYS_CLONE, unix.EPERM, newNamespaces},
		{unix.SYS_CLONE3, unix.ENOSYS, 0},
		{unix.SYS_SETNS, unix.EPERM, 0},
	},
	"mount":           {{unix.SYS_MOUNT, unix.EPERM, 0}},
	"mount, by death": {{unix.SYS_MOUNT, 0, 0}},
	"unshare, and mount by death": {
		{unix.SYS_UNSHARE, unix.EPERM, 0},
		{unix.SYS_CLONE, unix.EPERM, newNamespaces},
		{unix.SYS_MOUNT, 0, 0},
	},
	"move_mount":           {{unix.SYS_MOVE_MOUNT, unix.EPERM, 0}},
	"move_mount, by death": {{unix.SYS_MOVE_MOUNT, 0, 0}},
	"seccomp":              {{unix.SYS_SECCOMP, unix.EPERM, 0}},
	"pidfd_getfd":          {{unix.SYS_PIDFD_GETFD, unix.EPERM, 0}},
	"process_vm_readv":     {{unix.SYS_PROCESS_VM_READV, unix.EPERM, 0}},
	"openat2":              {{unix.SYS_OPENAT2, unix.ENOSYS, 0}},
	"landlock":             {{unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS, 0}},
	"landlock by profile": {
		{unix.SYS_LANDLOCK_CREATE_RULESET, unix.EPERM, 0},
		{unix.SYS_LANDLOCK_ADD_RULE, unix.EPERM, 0},
		{unix.SYS_LANDLOCK_RESTRICT_SELF, unix.EPERM, 0},
	},
}

// program is a set as seccomp(2) takes it. Offsets are those of struct
// seccomp_data: the number at 0, the first argument's low half at 16.
func program(set []refusal) []unix.SockFilter {
	const load, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
	var p []unix.SockFilter
	for _, r := range set {
		answer := unix.SECCOMP_RET_ERRNO | uint32(r.errno)
		if r.errno == 0 {
			answer = unix.SECCOMP_RET_KILL_PROCESS
		}
		p = append(p, unix.SockFilter{Code: load, K: 0})
		if r.bits == 0 {
			p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ, Jf: 1, K: r.call})
		} else {
			p = append(p,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ, Jf: 3, K: r.call},
				unix.SockFilter{Code: load, K: 16},
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET, Jf: 1, K: r.bits})
		}
		p = append(p, unix.SockFilter{Code: ret, K: answer})
	}
	return append(p, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}

// becomeFiltered never returns, but with an error.
func becomeFiltered(name string, argv []string) error {
	p := program(filterSets[name])
	if len(p) < 2 || len(argv) == 0 {
		return fmt.Errorf("no filter %q, or no command", name)
	}
	runtime.LockOSThread()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return err
	}
	env := os.Environ()
	for i, v := range env {
		if strings.HasPrefix(v, filterVariable+"=") {
			env[i] = "PINFOLD_TEST_FILTERED=1"
		}
	}
	return syscall.Exec(argv[0], argv, env)
}

// TestFilters: each refuses what it says, and is what the other tests run
// under.
func TestFilters(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name := range filterSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := l.patient(t, where{filter: name})
			if res := s.run(t, "grep -q 'Seccomp:.*2' /proc/self/status"); res.code != 0 {
				t.Errorf("no filter is in force: %v", res)
			}
			if name != "namespaces" {
				return
			}
			if res := s.run(t, "unshare --user true"); res.code == 0 || !strings.Contains(res.stderr, unix.EPERM.Error()) && !strings.Contains(res.stderr, "not permitted") {
				t.Errorf("namespaces can be made: %v", res)
			}
		})
	}
}

// filterMain is what TestMain calls first.
func filterMain() {
	name := os.Getenv(filterVariable)
	if name == "" {
		return
	}
	err := becomeFiltered(name, os.Args[1:])
	fmt.Fprintln(os.Stderr, errors.Join(errors.New("cannot run behind a filter"), err))
	os.Exit(1)
}
