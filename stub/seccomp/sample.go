package seccomp

// A Probe is one call that a filter must answer. Its arguments are such that
// the kernel would do nothing either, and say so with another errno.
type Probe struct {
	Name   string // of the call, with what matters of its arguments
	Number uint32
	Args   [6]uint64
	// Want is the answer; zero is a new descriptor.
	Want Errno
}

// Sample is what the stub tries before the command runs: one call of each kind
// of rule that the kernel would answer otherwise. Calls that it refuses to
// everybody without capabilities anyway (bpf, AF_PACKET, reboot) tell nothing.
func Sample(arch string, mode Mode) []Probe {
	const minusOne = ^uint64(0)
	none := uint64(^uint32(0))
	p := prober{arch: arch}
	p.add("unshare", EPERM)
	p.add("setns", EPERM, minusOne)
	p.add("mount", EPERM)
	p.add("clone3", ENOSYS)
	p.add("open_tree", ENOSYS, minusOne, 0, none)
	p.add("io_uring_setup", ENOSYS)
	p.add("keyctl", EPERM, 0xffff)
	p.add("perf_event_open", EPERM, 0, 0, 0, 0, none)
	p.add("userfaultfd", EPERM, none)
	p.addAs("ioctl TIOCSTI", "ioctl", EPERM, minusOne, ioctlTIOCSTI)
	p.addAs("fchmod S_ISUID", "fchmod", EPERM, minusOne, setUID)
	p.addAs("openat S_ISUID", "openat", EPERM, minusOne, 0, oCreat, setUID)
	p.add("openat2", ENOSYS, minusOne)
	p.addAs("socket AF_ALG", "socket", EPERM, afAlg, sockSeqpacket)
	p.addAs("socket AF_UNIX SOCK_DGRAM", "socket", EPERM, afUnix, sockDgram)
	p.addAs("socket AF_NETLINK NETLINK_SOCK_DIAG", "socket", EPERM, afNetlink, sockRaw, netlinkSockDiag)
	p.addAs("socket AF_INET", "socket", 0, afInet, sockStream)
	if mode == Base {
		p.addAs("socket AF_UNIX", "socket", EPERM, afUnix, sockStream)
	} else {
		p.addAs("socket AF_UNIX", "socket", 0, afUnix, sockStream)
	}
	return p.list
}

// afAlg is AF_ALG, socket(2), which no mode allows.
const afAlg = 38

type prober struct {
	arch string
	list []Probe
}

func (p *prober) add(name string, want Errno, args ...uint64) { p.addAs(name, name, want, args...) }

func (p *prober) addAs(name, call string, want Errno, args ...uint64) {
	number, ok := Number(p.arch, call)
	if !ok {
		return // an architecture without filters refuses the launch elsewhere
	}
	probe := Probe{Name: name, Number: number, Want: want}
	copy(probe.Args[:], args)
	p.list = append(p.list, probe)
}
