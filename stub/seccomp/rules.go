package seccomp

// An Errno is what a refused call answers. The numbers are the same on every
// architecture of [Arches].
type Errno uint16

// The answers. ENOSYS is for calls that programs try first and do without: it
// sends them to the older call at once. EPERM is for the rest.
const (
	EPERM  Errno = 1
	ENOSYS Errno = 38
)

// String is the errno's name.
func (e Errno) String() string {
	if e == ENOSYS {
		return "ENOSYS"
	}
	return "EPERM"
}

// A Rule refuses one system call, if all its arguments match, or hands it to
// the supervisor.
type Rule struct {
	Syscall string
	Args    []Arg
	Answer  Errno
	// HandOver stands in for the Answer: the supervisor gives it
	// (SECCOMP_RET_USER_NOTIF).
	HandOver bool
	// Only is the architecture that has this call; empty for all.
	Only string
	Why  string
}

// An Arg is a condition on the low 32 bits of one argument, all that the
// kernel takes of those in this table: one of In, or none of NotIn.
type Arg struct {
	Index int
	// Mask is applied first; zero stands for all 32 bits.
	Mask      uint32
	In, NotIn []uint32
}

// Newest is the last system call number that was reviewed for this table:
// file_setattr, Linux 6.17. From 424 on all architectures number alike.
const Newest = 469

// Rules are the calls that the mode's filter refuses on an architecture.
func Rules(arch string, mode Mode) []Rule {
	groups := [][]Rule{
		socketRules(mode), socketpairRules(), namespaceRules(), mountRules(),
		kernelRules(), keyRules(), surfaceRules(), terminalRules(), modeRules(),
	}
	switch mode {
	case Notify:
		groups = [][]Rule{notifyRules()}
	case Inner:
		groups = [][]Rule{innerRules()}
	}
	var list []Rule
	for _, group := range groups {
		for _, r := range group {
			if r.Only == "" || r.Only == arch {
				list = append(list, r)
			}
		}
	}
	return list
}

// refuse is one rule for each name, whatever the arguments.
func refuse(answer Errno, why string, names ...string) []Rule {
	list := make([]Rule, 0, len(names))
	for _, name := range names {
		list = append(list, Rule{Syscall: name, Answer: answer, Why: why})
	}
	return list
}

// The clone(2) flags that make a namespace. CLONE_NEWTIME isn't among them:
// in clone its bit belongs to the exit signal.
const (
	cloneNewNS     = 0x00020000
	cloneNewCgroup = 0x02000000
	cloneNewUTS    = 0x04000000
	cloneNewIPC    = 0x08000000
	cloneNewUser   = 0x10000000
	cloneNewPID    = 0x20000000
	cloneNewNet    = 0x40000000
)

func namespaceRules() []Rule {
	list := refuse(EPERM, "a namespace of one's own brings capabilities over it, and with them most kernel bugs", "unshare", "setns")
	list = append(list, refuse(ENOSYS, "its flags lie in memory, out of the filter's sight; C libraries fall back to clone", "clone3")...)
	for _, flag := range []uint32{cloneNewNS, cloneNewCgroup, cloneNewUTS, cloneNewIPC, cloneNewUser, cloneNewPID, cloneNewNet} {
		list = append(list, Rule{
			Syscall: "clone", Answer: EPERM,
			Args: []Arg{{Index: 0, Mask: flag, In: []uint32{flag}}},
			Why:  "as unshare; threads and plain children have none of these flags",
		})
	}
	return list
}

func mountRules() []Rule {
	list := refuse(EPERM, "the mount table is the boundary", "mount", "umount2", "pivot_root")
	list = append(list, refuse(ENOSYS, "the same by the newer interface; libmount falls back to mount",
		"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr")...)
	return append(list, refuse(EPERM, "opens any inode of a mounted file system, past all paths and covers", "open_by_handle_at")...)
}

func kernelRules() []Rule {
	list := refuse(EPERM, "replaces or extends the running kernel", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module")
	list = append(list, refuse(EPERM, "the machine's, not the command's", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd")...)
	list = append(list, refuse(EPERM, "the kernel's log holds other users' paths, and addresses", "syslog")...)
	for _, name := range []string{"iopl", "ioperm"} {
		list = append(list, Rule{Syscall: name, Answer: EPERM, Only: "amd64", Why: "access to I/O ports"})
	}
	return list
}

func keyRules() []Rule {
	return refuse(EPERM, "keyrings have no namespace: the user's own keys on the host answer", "keyctl", "add_key", "request_key")
}

// The execution domains that change no more than what uname(2) says, and the
// query. ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC and MMAP_PAGE_ZERO undo
// hardening, personality(2).
const (
	perLinux     = 0
	perLinux32   = 8
	uname26      = 0x0020000
	persQuery    = 0xffffffff
	ioctlTIOCSTI = 0x5412
	ioctlLinux   = 0x541c
)

func surfaceRules() []Rule {
	list := refuse(ENOSYS, "a second way into most calls that no filter sees, and a large share of recent kernel exploits",
		"io_uring_setup", "io_uring_enter", "io_uring_register")
	list = append(list, refuse(EPERM, "programs inside the kernel", "bpf")...)
	list = append(list, refuse(EPERM, "measures the machine, and a frequent source of kernel bugs", "perf_event_open")...)
	list = append(list, refuse(EPERM, "stops the kernel in the middle of a copy, which turns races into exploits", "userfaultfd")...)
	return append(list, Rule{
		Syscall: "personality", Answer: EPERM,
		Args: []Arg{{Index: 0, NotIn: []uint32{perLinux, perLinux32, uname26, uname26 | perLinux32, persQuery}}},
		Why:  "turns off address randomisation and the guard at page zero; the harmless values and the query stay",
	})
}

func terminalRules() []Rule {
	return []Rule{{
		Syscall: "ioctl", Answer: EPERM,
		Args: []Arg{{Index: 1, In: []uint32{ioctlTIOCSTI, ioctlLinux}}},
		Why:  "TIOCSTI types into the terminal's next reader, TIOCLINUX pastes (CVE-2017-5226, CVE-2023-28100)",
	}}
}

// setUID is S_ISUID, inode(7); the others are the flags of open(2) that make a
// file. O_TMPFILE is a bit of its own beside O_DIRECTORY's.
const (
	setUID   = 0o4000
	oCreat   = 0o100
	oTmpfile = 0o20000000
)

// modeRules keep the set-user-ID bit from files. Nothing inside gains by it,
// which has no_new_privs; on the host another user who runs such a file becomes
// the caller. One that is made with the bit holds nothing yet, and loses it when
// something is written to it (file_remove_privs(), fs/inode.c), but not when
// root outside does that, who has CAP_FSETID. The set-group-ID bit stays: on
// directories it is in everyday use, and the filter sees no file types.
func modeRules() []Rule {
	const why = "a set-user-ID file in a write grant makes whoever runs it on the host the caller"
	var list []Rule
	for _, c := range []struct {
		name, only string
		mode       int
	}{
		{"chmod", "amd64", 1},
		{"fchmod", "", 1},
		{"fchmodat", "", 2},
		{"fchmodat2", "", 2},
		{"creat", "amd64", 1},
		{"mknod", "amd64", 1},
		{"mknodat", "", 2},
	} {
		list = append(list, Rule{
			Syscall: c.name, Only: c.only, Answer: EPERM, Why: why,
			Args: []Arg{{Index: c.mode, Mask: setUID, In: []uint32{setUID}}},
		})
	}
	return append(list, openRules(why)...)
}

// openRules are about the calls that make a file if their flags say so; the mode
// is whatever stands in the register if they don't.
func openRules(why string) []Rule {
	var list []Rule
	for _, c := range []struct {
		name, only  string
		flags, mode int
	}{{"open", "amd64", 1, 2}, {"openat", "", 2, 3}} {
		for _, flag := range []uint32{oCreat, oTmpfile} {
			list = append(list, Rule{
				Syscall: c.name, Only: c.only, Answer: EPERM, Why: why,
				Args: []Arg{{Index: c.flags, Mask: flag, In: []uint32{flag}}, {Index: c.mode, Mask: setUID, In: []uint32{setUID}}},
			})
		}
	}
	return append(list, innerRules()...)
}

// innerRules are those that would hit an engine's runtime, whose last steps are
// behind the container's filter: runc opens its own /proc with openat2 there,
// and has learnt before that the kernel has it.
func innerRules() []Rule {
	return refuse(ENOSYS, "its mode lies in memory, out of the filter's sight; programs fall back to openat", "openat2")
}
