package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// checkSystem names the distribution; WSL 1 has no Linux kernel to ask.
func checkSystem(_ context.Context, h *Host) Result {
	d := h.distro
	seen := d.Pretty
	if seen == "" {
		seen = "an unnamed distribution"
	}
	switch d.WSL {
	case 1:
		return fail("wsl1", seen+" on WSL 1, which has no Linux kernel", "wsl.exe --set-version "+wslName(d)+" 2")
	case 2:
		seen += " on WSL 2"
	}
	return ok(seen)
}

func wslName(d Distribution) string {
	if d.ID == "" {
		return "<distribution>"
	}
	return strings.ToUpper(d.ID[:1]) + d.ID[1:]
}

// minimumKernel: openat2(2), pidfd_getfd(2) and user notification that can
// be relied on all came by 5.6.
var minimumKernel = [2]int{5, 6}

func checkKernel(_ context.Context, h *Host) Result {
	text, err := h.read("proc/sys/kernel/osrelease")
	if err != nil {
		return unknown("kernel_unknown", "cannot read /proc/sys/kernel/osrelease: "+err.Error())
	}
	v, err := parseKernel(text)
	if err != nil {
		return unknown("kernel_unknown", err.Error())
	}
	if v[0] < minimumKernel[0] || v[0] == minimumKernel[0] && v[1] < minimumKernel[1] {
		fix := words("upgrade the kernel to 5.6 or newer")
		if h.container() == gVisor {
			fix = h.kernelFix()
		}
		return fail("kernel_too_old", fmt.Sprintf("Linux %s; 5.6 or newer is needed (openat2, pidfd_getfd)", text), fix)
	}
	return ok("Linux " + text)
}

func parseKernel(text string) (v [2]int, err error) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return v, fmt.Errorf("cannot read kernel release %q", text)
	}
	for i := range v {
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		if v[i], err = strconv.Atoi(digits); err != nil {
			return v, fmt.Errorf("cannot read kernel release %q", text)
		}
	}
	return v, nil
}

func checkArchitecture(_ context.Context, h *Host) Result {
	if h.Arch == "amd64" || h.Arch == "arm64" {
		return ok(h.Arch)
	}
	return fail("architecture_unsupported", h.Arch+": there are seccomp programs for amd64 and arm64 only", words("use an amd64 or arm64 machine"))
}

// checkTIOCSTI: with legacy_tiocsti 0 (6.2) the kernel itself refuses to push
// characters into a terminal; the filter refuses it everywhere.
func checkTIOCSTI(_ context.Context, h *Host) Result {
	v, err := h.read("proc/sys/dev/tty/legacy_tiocsti")
	switch {
	case isNotExist(err):
		return ok("no switch for TIOCSTI (kernel before 6.2); the filter refuses it")
	case err != nil:
		return unknown("tiocsti_unknown", err.Error())
	case v == "0":
		return ok("TIOCSTI is off in the kernel too")
	}
	return ok("TIOCSTI is on in the kernel; the filter refuses it")
}

// checkYama: user notification reads the address of a connection out of the
// caller's memory with process_vm_readv(2). Scopes 1 and 2 leave that to an
// ancestor and to whoever has CAP_SYS_PTRACE over the target's user namespace
// (yama_ptrace_access_check in security/yama/yama_lsm.c), and pinfold owns that
// namespace; 3 forbids it to everybody, and can't be taken back until the next
// boot (Documentation/admin-guide/LSM/Yama.rst).
func checkYama(_ context.Context, h *Host) Result {
	v, err := h.read("proc/sys/kernel/yama/ptrace_scope")
	switch {
	case isNotExist(err):
		return ok("no Yama")
	case err != nil:
		return unknown("yama_unknown", err.Error())
	case v != "3":
		return ok("Yama ptrace_scope " + v)
	}
	return warn("yama_restricts", "Yama ptrace_scope 3: a caller's memory can't be read, so egress goes by the proxy and listed sockets are refused",
		"echo kernel.yama.ptrace_scope=2 | sudo tee /etc/sysctl.d/60-pinfold-yama.conf   # then reboot")
}

// checkSELinux: what it refuses shows in the rows on namespaces.
func checkSELinux(_ context.Context, h *Host) Result {
	v, err := h.read("sys/fs/selinux/enforce")
	switch {
	case isNotExist(err):
		return ok("no SELinux")
	case err != nil:
		return unknown("selinux_unknown", err.Error())
	case v == "0":
		return ok("SELinux is permissive")
	}
	if r, found := causeSELinux(h); found && h.UID != 0 {
		r.Status = Warn
		return r
	}
	return ok("SELinux is enforcing")
}

// checkWSLInterop: interop sockets start Windows programs outside of any
// boundary; they are among the denied escape sockets.
func checkWSLInterop(_ context.Context, h *Host) Result {
	if h.distro.WSL == 0 {
		return ok("not WSL")
	}
	if h.exists("run/WSL") {
		return ok("WSL interop sockets are there and denied to every launch")
	}
	return ok("no WSL interop sockets")
}
