package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pinfold/stub/wire"
)

// ErrNotThere is a conclusive no: the kernel, or a filter in front of it,
// doesn't offer what was asked for. Any other error is "couldn't tell".
var ErrNotThere = errors.New("not there")

// ErrKilled is a filter that ends a process instead of answering it: nothing
// more should be asked in this one.
var ErrKilled = errors.New("ended by a seccomp filter")

// Prober asks the kernel what no file tells.
type Prober interface {
	// Syscall asks for one of the calls in [syscalls] or [namespaceCalls], or
	// the actions in [actions], by name.
	Syscall(name string) error
	// LandlockABI is 0 where there is no Landlock.
	LandlockABI() (int, error)
	// Connections says why connections can't be answered by the supervisor,
	// and why it can't be told which unix sockets are whose.
	Connections() (answered, told error)
	// Disk looks at a directory's file system.
	Disk(dir string) (Disk, error)
	// Limits looks for a place for cgroups as a launch does; it makes none.
	Limits() error
	// Bubblewrap finds the program that wrap would use.
	Bubblewrap(ctx context.Context) (Bubblewrap, error)
	// Namespaces runs bubblewrap's full chain with only the namespaces named
	// ("user", "pid", …; "proc" mounts a fresh /proc).
	Namespaces(ctx context.Context, kinds ...string) error
	// Launch runs true through exactly the code that wrap uses, in a throw-away
	// workspace; {toolbelt} is a socket that somebody listens on.
	Launch(ctx context.Context, policy string) error
	// LaunchFile does the same under the policy in a file, in the workspace
	// that wrap would take.
	LaunchFile(ctx context.Context, file string) error
}

// asked is something of the kernel's, since which version, and what for.
type asked struct {
	name     string
	since    string
	use      string
	required bool
}

var syscalls = []asked{
	{"openat2", "5.6", "resolving paths", true},
	{"pidfd_open", "5.3", "signals to the right process", true},
	{"pidfd_getfd", "5.6", "answering connections", false},
	{"close_range", "5.9", "closing descriptors at once", false},
}

// actions of seccomp(2) that the filters use.
var actions = []asked{
	{"errno", "3.5", "refusing calls", true},
	{"kill_process", "4.14", "ending a process of another ABI", true},
	{"user_notif", "5.0", "answering connections", false},
}

func checkSyscalls(_ context.Context, h *Host) Result {
	return h.ask(syscalls, "",
		func(seen, fix string) Result { return fail("syscall_missing", seen, fix) },
		func(seen, fix string) Result { return warn("syscall_optional_missing", seen, fix) })
}

func checkSeccomp(_ context.Context, h *Host) Result {
	return h.ask(actions, "seccomp_",
		func(seen, fix string) Result { return fail("seccomp_missing", seen, fix) },
		func(seen, fix string) Result { return warn("seccomp_action_missing", seen, fix) })
}

// ask goes through a list and names what is missing, in the row for what is
// needed or for what is done without.
func (h *Host) ask(list []asked, prefix string, needed, optional func(seen, fix string) Result) Result {
	if h.Probe == nil {
		return unknown("kernel_not_asked", "the kernel was not asked")
	}
	var there, missing, weaker, unclear []string
	for _, s := range list {
		label := s.name + " (" + s.use + ", Linux " + s.since + ")"
		switch err := h.Probe.Syscall(prefix + s.name); {
		case err == nil:
			there = append(there, s.name)
		case !errors.Is(err, ErrNotThere):
			unclear = append(unclear, s.name+": "+err.Error())
		case s.required:
			missing = append(missing, label)
		default:
			weaker = append(weaker, label)
		}
	}
	switch {
	case len(missing) > 0:
		return needed("missing: "+strings.Join(missing, ", "), h.kernelFix())
	case len(unclear) > 0:
		return unknown("kernel_not_asked", strings.Join(unclear, ", "))
	case len(weaker) > 0:
		return optional("missing, and done without: "+strings.Join(weaker, ", "), h.kernelFix())
	}
	return ok(strings.Join(there, ", "))
}

// checkEgress says by which way what is allowed gets out on this machine.
func checkEgress(ctx context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("egress_unknown", "the kernel was not asked")
	}
	answered, told := h.Probe.Connections()
	abi, err := h.Probe.LandlockABI()
	switch {
	case answered != nil:
		fix := h.kernelFix()
		if r := checkYama(ctx, h); r.Status == Warn {
			fix = r.Fix
		}
		return warn("egress_proxy_only", "by the proxy alone, so programs have to know of proxies, and no policy may list sockets: "+answered.Error(), fix)
	case told != nil:
		return warn("sockets_not_told", "transparent, for any program; but no policy may list sockets: "+told.Error(), h.diagFix())
	case err == nil && abi < wire.LandlockABI:
		return warn("sockets_need_landlock", fmt.Sprintf("transparent, for any program; but no policy may list sockets: Landlock ABI %d, wanted %d", abi, wire.LandlockABI), "")
	}
	return ok("transparent, for any program; unix sockets by path")
}

// checkLandlock: the second layer. REFER came with ABI 2 (5.19), truncate
// with 3 (6.2), scopes with 6 (6.12).
func checkLandlock(_ context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("landlock_unknown", "the kernel was not asked")
	}
	abi, err := h.Probe.LandlockABI()
	switch {
	case errors.Is(err, ErrNotThere):
		return fail("landlock_refused", "a profile refuses Landlock's calls, so what the kernel has can't be told: "+err.Error(), h.kernelFix())
	case err != nil:
		return unknown("landlock_unknown", err.Error())
	case abi == 0 && (h.container() == "gVisor" || h.filtered()):
		return warn("landlock_missing", noLandlock, h.kernelFix())
	case abi == 0:
		return warn("landlock_missing", noLandlock, h.onHost(h.landlockFix()))
	case abi < wire.LandlockABI:
		return warn("landlock_old", fmt.Sprintf("Landlock ABI %d: renames between directories would be refused, so it isn't used", abi), words("upgrade the kernel to 5.19 or newer"))
	case abi < 6:
		return ok(fmt.Sprintf("Landlock ABI %d (no signal and abstract socket scopes before 6)", abi))
	}
	return ok(fmt.Sprintf("Landlock ABI %d", abi))
}

// diagFix: a filter's no is no missing module.
func (h *Host) diagFix() string {
	if h.Inside() {
		return words(Outside)
	}
	return "sudo modprobe unix_diag"
}

const noLandlock = "no Landlock: launches lack the second layer and say so; a policy that requires it is refused"

// landlockFix: the module is often built but not in the list of active ones,
// which the kernel shows in /sys/kernel/security/lsm. Before 5.13 there is none,
// and before 5.19 none that is used.
func (h *Host) landlockFix() string {
	const list = "lsm=landlock,$(cat /sys/kernel/security/lsm)"
	if h.olderThan(5, 19) {
		return words("upgrade the kernel to 5.19 or newer")
	}
	switch h.distro.family() {
	case debian:
		return `sudo sed -i "s/^GRUB_CMDLINE_LINUX=\"/&` + list + ` /" /etc/default/grub && sudo update-grub   # then reboot`
	case fedora:
		return `sudo grubby --update-kernel=ALL --args="` + list + `"   # then reboot`
	}
	return words("add " + list + " to the kernel's command line, and reboot")
}

// olderThan reports whether the kernel is known to be.
func (h *Host) olderThan(major, minor int) bool {
	text, err := h.read("proc/sys/kernel/osrelease")
	if err != nil {
		return false
	}
	v, err := parseKernel(text)
	return err == nil && (v[0] < major || v[0] == major && v[1] < minor)
}
