//go:build linux

package integration_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func descriptorAttacks() map[string]attack {
	return map[string]attack{
		"inherited descriptor 3":    {args: []string{"fd", "3"}, files: open(3, "daemon/token")},
		"inherited descriptor 9":    {args: []string{"fd", "9"}, files: open(9, "daemon")},
		"inherited descriptor 2048": {args: []string{"fd", "2048"}, files: open(2048, "daemon/token")},
		"any descriptor":            {args: []string{"fds"}, files: open(700, "daemon")},
	}
}

// unixServer listens on a socket of the host and fails the test if anything
// arrives while the attack runs inside.
func unixServer(network, name string) func(*testing.T, *lab) []string {
	return func(t *testing.T, l *lab) []string {
		t.Helper()
		address := l.place([]string{"{tag}", fmt.Sprint(os.Getpid(), "-", l.root[len(l.root)-8:])}).Replace(name)
		if network == "unixgram" {
			c, err := net.ListenUnixgram(network, &net.UnixAddr{Name: address, Net: network})
			must(t, err)
			t.Cleanup(func() { c.Close() })
		} else {
			s, err := net.Listen(network, address)
			must(t, err)
			t.Cleanup(func() { s.Close() })
		}
		if address[0] != '@' {
			must(t, os.Chmod(address, 0o777))
		}
		return []string{"{sock}", address}
	}
}

func socketAttacks() map[string]attack {
	dgram, seq, stream := number(unix.SOCK_DGRAM), number(unix.SOCK_SEQPACKET), number(unix.SOCK_STREAM)
	cloexec := func(n int) string { return number(n | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK) }
	gram, plain := unixServer("unixgram", "{run}/s"), unixServer("unix", "{run}/s")
	table := map[string]attack{
		"datagram pair re-aimed":        {args: []string{"socketpair", dgram, "{sock}"}, prepare: gram},
		"datagram pair with flags":      {args: []string{"socketpair", cloexec(unix.SOCK_DGRAM), "{sock}"}, prepare: gram},
		"raw pair re-aimed":             {args: []string{"socketpair", number(unix.SOCK_RAW), "{sock}"}, prepare: gram},
		"unix stream to the host":       {args: []string{"unix", stream, "{sock}"}, prepare: plain},
		"unix stream with flags":        {args: []string{"unix", cloexec(unix.SOCK_STREAM), "{sock}"}, prepare: plain},
		"unix datagram to the host":     {args: []string{"unix", dgram, "{sock}"}, prepare: gram},
		"unix seqpacket to the host":    {args: []string{"unix", seq, "{sock}"}, prepare: unixServer("unixpacket", "{run}/s")},
		"abstract stream":               {args: []string{"unix", stream, "{sock}"}, prepare: unixServer("unix", "@pinfold-lab-{tag}")},
		"abstract pair":                 {args: []string{"socketpair", dgram, "{sock}"}, prepare: unixServer("unixgram", "@pinfold-lab-{tag}")},
		"host loopback":                 {args: []string{"tcp", "127.0.0.1", "{port}"}, prepare: tcpServer},
		"host loopback by its other IP": {args: []string{"tcp", "127.1.2.3", "{port}"}, prepare: tcpServer},
		"datagram to an address":        {args: []string{"udp", "203.0.113.66", "9"}, noControl: "nothing is sent off this machine"},
		"unix socket, 64-bit arguments": {args: []string{"socket64", "1", "2", "0"}},
		"packet, 64-bit arguments":      {args: []string{"socket64", "17", "3", "0"}, root: true},
	}
	for name, s := range map[string][3]int{
		"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0}, "raw": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"vsock": {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "alg": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		"uevent": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, "audit": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
		"netfilter": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "unix datagram": {unix.AF_UNIX, unix.SOCK_DGRAM, 0},
		"key": {unix.AF_KEY, unix.SOCK_RAW, 2}, "sctp": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP},
	} {
		root := s[0] == unix.AF_PACKET || s[1] == unix.SOCK_RAW && s[0] != unix.AF_NETLINK
		table["socket "+name] = attack{args: []string{"socket", number(s[0]), number(s[1]), number(s[2])}, root: root}
	}
	return table
}

func tcpServer(t *testing.T, _ *lab) []string {
	t.Helper()
	s, err := net.Listen("tcp4", "0.0.0.0:0")
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return []string{"{port}", strconv.Itoa(s.Addr().(*net.TCPAddr).Port)}
}

func namespaceAttacks() map[string]attack {
	user, mnt, nets, pid := uint64(unix.CLONE_NEWUSER), uint64(unix.CLONE_NEWNS), uint64(unix.CLONE_NEWNET), uint64(unix.CLONE_NEWPID)
	return map[string]attack{
		"clone3 a user namespace":    {args: []string{"clone3", number(user)}},
		"clone3 user and mount":      {args: []string{"clone3", number(user | mnt)}},
		"clone a user namespace":     {args: []string{"clone", number(user)}},
		"unshare a user namespace":   {args: []string{"unshare", number(user)}},
		"unshare user, mount, net":   {args: []string{"unshare", number(user | mnt | nets)}},
		"unshare a mount namespace":  {args: []string{"unshare", number(mnt)}, root: true},
		"unshare a pid namespace":    {args: []string{"unshare", number(pid)}, root: true},
		"unshare a cgroup namespace": {args: []string{"unshare", number(uint64(unix.CLONE_NEWCGROUP))}, root: true},
		"join a mount namespace":     {args: []string{"setns", "/proc/self/ns/mnt"}, root: true},
		"mount":                      {args: []string{"mount", "{ws}/m"}, prepare: mountPoint, root: true},
		"new mount interface":        {args: []string{"fsopen"}, root: true},
		"clone a mount":              {args: []string{"opentree", "{home}"}, root: true},
		"remount writable":           {args: []string{"remount", "{home}"}, noControl: "it isn't a mount outside"},
		"unmount a cover":            {args: []string{"umount", "{home}/.ssh"}, noControl: "there is no cover outside"},
		"change the root":            {args: []string{"chroot", "{ws}"}, root: true},
	}
}

// mountPoint is unmounted again when the control mounted on it.
func mountPoint(t *testing.T, l *lab) []string {
	t.Helper()
	dir := l.ws + "/m"
	mkdir(t, dir)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return nil
}

func processAttacks() map[string]attack {
	table := map[string]attack{
		"signal a host process": {args: []string{"kill", "{pid}"}, prepare: victim},
		"signal the supervisor": {args: []string{"kill", "{pid}"}, prepare: self},
		"SysV shared memory":    {args: []string{"shm", "{key}"}, prepare: sharedMemory},
		"setuid program":        {args: []string{"exec", "{suid}", "euid"}, prepare: setuid, noControl: "see the setuid control"},
	}
	for _, how := range []string{"attach", "mem", "environ", "fd"} {
		table[how+" a host process"] = attack{args: []string{"process", how, "{pid}"}, prepare: victim}
		table[how+" every process inside"] = attack{args: []string{"process", how, "all"}, noControl: "every process outside is somebody's"}
	}
	return table
}

// victim is a process of the same user on the host.
func victim(t *testing.T, _ *lab) []string {
	t.Helper()
	cmd := exec.Command("sleep", "120")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return []string{"{pid}", strconv.Itoa(cmd.Process.Pid)}
}

func self(*testing.T, *lab) []string { return []string{"{pid}", strconv.Itoa(os.Getpid())} }

func sharedMemory(t *testing.T, l *lab) []string {
	t.Helper()
	info, err := os.Stat(l.root)
	must(t, err)
	key := strconv.FormatInt(int64(0x7f000000)|info.ModTime().UnixNano()&0xffffff, 10)
	if out, err := exec.Command(built.attack, "shmput", key).CombinedOutput(); err != nil {
		t.Fatalf("cannot make shared memory: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(built.attack, "shmdel", key).Run() })
	return []string{"{key}", key}
}

func setuid(t *testing.T, _ *lab) []string {
	t.Helper()
	suid := os.Getenv("PINFOLD_ATTACK_SUID")
	if suid == "" || os.Getuid() == 0 {
		t.Skip("needs PINFOLD_ATTACK_SUID and an ordinary user")
	}
	return []string{"{suid}", suid}
}

// TestSetuidControl shows that the setuid program gains root outside.
func TestSetuidControl(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	words := setuid(t, l)
	if res := l.direct(t, launch{argv: []string{words[1], "euid"}}); res.code != 0 {
		t.Errorf("the setuid program gains nothing outside, so it proves nothing: %v", res)
	}
}

func kernelAttacks() map[string]attack {
	call := func(args ...string) []string { return append([]string{"call"}, args...) }
	table := map[string]attack{
		"add a key":       {args: []string{"keyring"}},
		"change layout":   {args: []string{"persona", "0x0040000"}},
		"read implies":    {args: []string{"persona", "0x0400000"}},
		"x32 calls":       {args: []string{"x32"}},
		"32-bit calls":    {args: []string{"int80"}},
		"terminal input":  {args: []string{"ioctl", "0x5412"}, noControl: "see TestTerminalInjection"},
		"terminal upper":  {args: []string{"ioctl", "0x100005412"}, noControl: "see TestTerminalInjection"},
		"console select":  {args: []string{"ioctl", "0x541c"}, noControl: "see TestTerminalInjection"},
		"console upper":   {args: []string{"ioctl", "0xffffffff0000541c"}, noControl: "see TestTerminalInjection"},
		"tty pushback -1": {args: []string{"ioctl", "0xffffffff00005412"}, noControl: "see TestTerminalInjection"},
	}
	// Each with arguments that the kernel looks at and refuses (EFAULT, EINVAL
	// …) where the filter doesn't refuse the call itself.
	for name, args := range map[string][]string{
		"io_uring_setup": {number(unix.SYS_IO_URING_SETUP), "0", "0"}, "bpf": {number(unix.SYS_BPF), "9999", "0", "0"},
		"perf_event_open": {number(unix.SYS_PERF_EVENT_OPEN), "0", "0", "-1", "-1", "0"},
		"keyctl":          {number(unix.SYS_KEYCTL), "0", "-3", "0"}, "request_key": {number(unix.SYS_REQUEST_KEY), "0", "0", "0", "0"},
		"fsmount": {number(unix.SYS_FSMOUNT), "-1", "0", "0"}, "move_mount": {number(unix.SYS_MOVE_MOUNT), "-1", "0", "-1", "0", "0"},
		"mount_setattr":     {number(unix.SYS_MOUNT_SETATTR), "-1", "0", "0", "0", "0"},
		"open_by_handle_at": {number(unix.SYS_OPEN_BY_HANDLE_AT), "-1", "0", "0"},
	} {
		table["call "+name] = attack{args: call(args...), root: name == "perf_event_open" || name == "fsmount" || name == "open_by_handle_at" || name == "move_mount" || name == "bpf"}
	}
	// What the control could not make without doing harm to the host.
	for name, args := range map[string][]string{
		"reboot": {number(unix.SYS_REBOOT), "0", "0", "0", "0"}, "swapon": {number(unix.SYS_SWAPON), "0", "0"},
		"acct": {number(unix.SYS_ACCT), "1"}, "quotactl": {number(unix.SYS_QUOTACTL), "-1", "0", "0", "0"},
		"init_module": {number(unix.SYS_INIT_MODULE), "0", "0", "0"}, "finit_module": {number(unix.SYS_FINIT_MODULE), "-1", "0", "0"},
		"delete_module": {number(unix.SYS_DELETE_MODULE), "1", "0"}, "syslog": {number(unix.SYS_SYSLOG), "3", "0", "0"},
		"kexec_load": {number(unix.SYS_KEXEC_LOAD), "0", "99", "0", "0"}, "pivot_root": {number(unix.SYS_PIVOT_ROOT), "1", "1"},
		"userfaultfd": {number(unix.SYS_USERFAULTFD), "-1"}, "setns": {number(unix.SYS_SETNS), "-1", "0"},
	} {
		table["call "+name] = attack{args: call(args...), noControl: "the kernel's own answer may be the same"}
	}
	return table
}
