package seccomp

// numbers are the system calls of the table, by architecture, from x/sys. The
// generator compares them with libseccomp's.
var numbers = map[string]map[string]uint32{
	"amd64": {
		"acct":              163,
		"add_key":           248,
		"bpf":               321,
		"clone":             56,
		"clone3":            435,
		"connect":           42,
		"delete_module":     176,
		"finit_module":      313,
		"fsconfig":          431,
		"fsmount":           432,
		"fsopen":            430,
		"fspick":            433,
		"init_module":       175,
		"io_uring_enter":    426,
		"io_uring_register": 427,
		"io_uring_setup":    425,
		"ioctl":             16,
		"ioperm":            173,
		"iopl":              172,
		"kexec_file_load":   320,
		"kexec_load":        246,
		"keyctl":            250,
		"mount":             165,
		"mount_setattr":     442,
		"move_mount":        429,
		"open_by_handle_at": 304,
		"open_tree":         428,
		"open_tree_attr":    467,
		"perf_event_open":   298,
		"personality":       135,
		"pivot_root":        155,
		"quotactl":          179,
		"quotactl_fd":       443,
		"reboot":            169,
		"request_key":       249,
		"sendmmsg":          307,
		"sendmsg":           46,
		"sendto":            44,
		"setns":             308,
		"socket":            41,
		"socketpair":        53,
		"swapoff":           168,
		"swapon":            167,
		"syslog":            103,
		"umount2":           166,
		"unshare":           272,
		"userfaultfd":       323,
	},
	"arm64": {
		"acct":              89,
		"add_key":           217,
		"bpf":               280,
		"clone":             220,
		"clone3":            435,
		"connect":           203,
		"delete_module":     106,
		"finit_module":      273,
		"fsconfig":          431,
		"fsmount":           432,
		"fsopen":            430,
		"fspick":            433,
		"init_module":       105,
		"io_uring_enter":    426,
		"io_uring_register": 427,
		"io_uring_setup":    425,
		"ioctl":             29,
		"kexec_file_load":   294,
		"kexec_load":        104,
		"keyctl":            219,
		"mount":             40,
		"mount_setattr":     442,
		"move_mount":        429,
		"open_by_handle_at": 265,
		"open_tree":         428,
		"open_tree_attr":    467,
		"perf_event_open":   241,
		"personality":       92,
		"pivot_root":        41,
		"quotactl":          60,
		"quotactl_fd":       443,
		"reboot":            142,
		"request_key":       218,
		"sendmmsg":          269,
		"sendmsg":           211,
		"sendto":            206,
		"setns":             268,
		"socket":            198,
		"socketpair":        199,
		"swapoff":           225,
		"swapon":            224,
		"syslog":            116,
		"umount2":           39,
		"unshare":           97,
		"userfaultfd":       282,
	},
}

// Number is a system call's number on an architecture.
func Number(arch, name string) (uint32, bool) {
	n, ok := numbers[arch][name]
	return n, ok
}

// nameOf is the name of a number that the table knows.
func nameOf(arch string, number uint32) (string, bool) {
	for name, n := range numbers[arch] {
		if n == number {
			return name, true
		}
	}
	return "", false
}
