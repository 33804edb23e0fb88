package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrNotThere is a conclusive no: the kernel, or a filter in front of it,
// doesn't offer what was asked for. Any other error is "couldn't tell".
var ErrNotThere = errors.New("not there")

// Prober asks the kernel what no file tells.
type Prober interface {
	// Syscall asks for one of the calls in [syscalls], by name.
	Syscall(name string) error
	// LandlockABI is 0 where there is no Landlock.
	LandlockABI() (int, error)
	// Bubblewrap finds the program that wrap would use.
	Bubblewrap(ctx context.Context) (Bubblewrap, error)
	// Namespaces runs bubblewrap's full chain with only the namespaces named
	// ("user", "pid", …; "proc" mounts a fresh /proc).
	Namespaces(ctx context.Context, kinds ...string) error
	// Launch runs true through exactly the code that wrap uses.
	Launch(ctx context.Context, policy string) error
}

// Bubblewrap is what was found on PATH.
type Bubblewrap struct {
	Path    string
	Version [3]int
	Setuid  bool
}

// syscalls are asked one by one, with what each is for.
var syscalls = []struct {
	name     string
	since    string
	use      string
	required bool
}{
	{"openat2", "5.6", "resolving paths", true},
	{"pidfd_open", "5.3", "signals to the right process", true},
	{"pidfd_getfd", "5.6", "user notification", false},
	{"seccomp", "3.17", "the system call filter", true},
	{"seccomp_user_notif", "5.0", "unix sockets by path, transparent egress", false},
	{"close_range", "5.9", "closing descriptors at once", false},
}

func checkSyscalls(_ context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("syscalls_unknown", "the kernel was not asked")
	}
	var missing, weaker, unclear []string
	for _, s := range syscalls {
		switch err := h.Probe.Syscall(s.name); {
		case errors.Is(err, ErrNotThere) && s.required:
			missing = append(missing, s.name+" ("+s.use+", Linux "+s.since+")")
		case errors.Is(err, ErrNotThere):
			weaker = append(weaker, s.name+" ("+s.use+", Linux "+s.since+")")
		case err != nil:
			unclear = append(unclear, s.name+": "+err.Error())
		}
	}
	return syscallResult(h, missing, weaker, unclear)
}

func syscallResult(h *Host, missing, weaker, unclear []string) Result {
	fix := "upgrade the kernel"
	if name := h.container(); name != "" {
		fix = containerFix(name)
	}
	switch {
	case len(missing) > 0:
		return fail("syscall_missing", "missing: "+strings.Join(missing, ", "), fix)
	case len(unclear) > 0:
		return unknown("syscalls_unknown", strings.Join(unclear, ", "))
	case len(weaker) > 0:
		return warn("syscall_optional_missing", "missing, and done without: "+strings.Join(weaker, ", "), fix)
	}
	return ok("openat2, pidfd_open, pidfd_getfd, seccomp with user notification, close_range")
}

// checkLandlock: the second layer. REFER came with ABI 2 (5.19), truncate
// with 3 (6.2), scopes with 6 (6.12).
func checkLandlock(_ context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("landlock_unknown", "the kernel was not asked")
	}
	abi, err := h.Probe.LandlockABI()
	switch {
	case err != nil:
		return unknown("landlock_unknown", err.Error())
	case abi == 0:
		return warn("landlock_missing", "no Landlock: launches lack the second layer and say so; a policy that requires it is refused", landlockFix)
	case abi < 2:
		return warn("landlock_old", fmt.Sprintf("Landlock ABI %d: renames between directories would be refused, so it isn't used", abi), "upgrade the kernel to 5.19 or newer")
	case abi < 6:
		return ok(fmt.Sprintf("Landlock ABI %d (no signal and abstract socket scopes before 6)", abi))
	}
	return ok(fmt.Sprintf("Landlock ABI %d", abi))
}

// landlockFix: the module is often built but not in the list of active ones.
const landlockFix = `sudo sed -i 's/^GRUB_CMDLINE_LINUX="/&lsm=landlock,lockdown,yama,integrity,apparmor,bpf /' /etc/default/grub && sudo update-grub   # then reboot`

// The versions of bubblewrap that the tests run against.
var (
	oldestBubblewrap = [3]int{0, 8, 0}
	newestBubblewrap = [3]int{0, 13, 99}
)

func checkBubblewrap(ctx context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("bwrap_unknown", "bubblewrap was not looked for")
	}
	b, err := h.Probe.Bubblewrap(ctx)
	if err != nil {
		return refused(err, "bwrap_missing", h.distro.install("bubblewrap"))
	}
	seen := fmt.Sprintf("%s %d.%d.%d", b.Path, b.Version[0], b.Version[1], b.Version[2])
	switch {
	case less(b.Version, oldestBubblewrap):
		return fail("bwrap_too_old", seen+"; 0.8.0 or newer is needed (--disable-userns)", h.distro.install("bubblewrap"))
	case b.Setuid:
		return warn("bwrap_setuid", seen+" is setuid root, which adds code that runs as root", "sudo chmod u-s "+b.Path)
	case less(newestBubblewrap, b.Version):
		return warn("bwrap_untested", seen+" is newer than the versions that were tested (0.8 to 0.13)", "")
	}
	return ok(seen)
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
