package doctor_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"pinfold/doctor"
	"pinfold/policy"
)

// TestRows asks for single rows in states that no fixture has.
func TestRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row    string
		mutate func(*doctor.Host, *probe)
		status doctor.Status
		code   string
	}{
		"bwrap too old":      {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrap.Version = [3]int{0, 7, 1} }, doctor.Fail, "bwrap_too_old"},
		"bwrap newer":        {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrap.Version = [3]int{0, 14, 0} }, doctor.Warn, "bwrap_untested"},
		"bwrap setuid":       {"bubblewrap", untrusted(0o755 | fs.ModeSetuid), doctor.Fail, "bwrap_setuid"},
		"bwrap shared":       {"bubblewrap", untrusted(0o775), doctor.Fail, "bwrap_untrusted"},
		"bwrap foreign":      {"bubblewrap", untrusted(0o755), doctor.Fail, "bwrap_untrusted"},
		"bwrap broken":       {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrapErr = unavailable("bwrap_broken", "x", "y") }, doctor.Fail, "bwrap_broken"},
		"bwrap unclear":      {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrapErr = errors.New("it hung") }, doctor.Unknown, "bwrap_missing"},
		"bwrap refused":      {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrapErr = &policy.Refusal{Code: "bwrap_writable", Fix: "x"} }, doctor.Fail, "bwrap_writable"},
		"one namespace":      {"namespaces", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"net": true} }, doctor.Fail, "namespace_refused"},
		"userns unclear":     {"user namespaces", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"user": errors.New("timeout")} }, doctor.Unknown, "userns_unknown"},
		"no openat2":         {"system calls", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"openat2": true} }, doctor.Fail, "syscall_missing"},
		"no pidfd_getfd":     {"system calls", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"pidfd_getfd": true} }, doctor.Warn, "syscall_optional_missing"},
		"no notification":    {"seccomp", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"seccomp_user_notif": true} }, doctor.Warn, "seccomp_action_missing"},
		"no seccomp":         {"seccomp", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"seccomp_errno": true} }, doctor.Fail, "seccomp_missing"},
		"call unclear":       {"system calls", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"openat2": errors.New("EIO")} }, doctor.Unknown, "kernel_not_asked"},
		"proxy only":         {"egress", func(_ *doctor.Host, p *probe) { p.answered = errors.New("no pidfd_getfd") }, doctor.Warn, "egress_proxy_only"},
		"no unix_diag":       {"egress", func(_ *doctor.Host, p *probe) { p.told = errors.New("no unix_diag") }, doctor.Warn, "sockets_not_told"},
		"landlock for both":  {"egress", func(_ *doctor.Host, p *probe) { p.landlock = 1 }, doctor.Warn, "sockets_need_landlock"},
		"yama 2":             {"yama", file("proc/sys/kernel/yama/ptrace_scope", "2"), doctor.OK, "ok"},
		"yama 3":             {"yama", file("proc/sys/kernel/yama/ptrace_scope", "3"), doctor.Warn, "yama_restricts"},
		"selinux":            {"selinux", file("sys/fs/selinux/enforce", "1"), doctor.OK, "ok"},
		"selinux boolean":    {"selinux", selinuxOff, doctor.Warn, "selinux_userns"},
		"selinux denies":     {"user namespaces", selinuxDenies, doctor.Fail, "selinux_userns"},
		"selinux, unclear":   {"user namespaces", selinuxElse, doctor.Fail, "userns_refused"},
		"few namespaces":     {"user namespaces", fewNamespaces, doctor.Fail, "userns_limit_low"},
		"a filter that ends": {"user namespaces", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"user": doctor.ErrKilled} }, doctor.Fail, "userns_filtered"},
		"a filter":           {"user namespaces", filter, doctor.Fail, "userns_filtered"},
		"/proc/sys closed":   {"user namespaces", procSysClosed, doctor.Fail, "proc_sys_read_only"},
		"no reason":          {"user namespaces", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"user": true} }, doctor.Fail, "userns_refused"},
		"chroot":             {"mounts", file("proc/self/mountinfo", "22 1 8:1 / /proc rw - proc proc rw"), doctor.Fail, "no_root_mount"},
		"no /proc":           {"mounts", func(h *doctor.Host, _ *probe) { h.Root = fstest.MapFS{} }, doctor.Fail, "no_proc"},
		"no limits":          {"cgroups", func(_ *doctor.Host, p *probe) { p.limits = refusedLimits() }, doctor.Warn, "limit_unavailable"},
		"limits unclear":     {"cgroups", func(_ *doctor.Host, p *probe) { p.limits = errors.New("timeout") }, doctor.Unknown, "cgroup_unknown"},
		"proc covered":       {"fresh /proc", procCovered, doctor.Fail, "proc_refused"},
		"no landlock":        {"landlock", func(_ *doctor.Host, p *probe) { p.landlock = 0 }, doctor.Warn, "landlock_missing"},
		"landlock 1":         {"landlock", func(_ *doctor.Host, p *probe) { p.landlock = 1 }, doctor.Warn, "landlock_old"},
		"landlock refused":   {"landlock", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"landlock": doctor.ErrNotThere} }, doctor.Fail, "landlock_refused"},
		"landlock unclear":   {"landlock", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"landlock": errors.New("EIO")} }, doctor.Unknown, "landlock_unknown"},
		"state is a file":    {"state directory", func(h *doctor.Host, _ *probe) { h.State = "/etc/os-release" }, doctor.Fail, "state_not_directory"},
		"state not named":    {"state directory", func(h *doctor.Host, _ *probe) { h.State = "" }, doctor.Unknown, "state_unknown"},
		"state in the way":   {"state directory", func(h *doctor.Host, _ *probe) { h.State = "/etc/os-release/pinfold" }, doctor.Fail, "state_not_makeable"},
		"state foreign":      {"state directory", func(_ *doctor.Host, p *probe) { p.disk.Owner = 1001 }, doctor.Fail, "state_foreign"},
		"state shared":       {"state directory", mode("home/ann/.local/state/pinfold", 0o770|fs.ModeDir), doctor.Fail, "state_shared"},
		"state read-only":    {"state directory", func(_ *doctor.Host, p *probe) { p.disk.ReadOnly = true }, doctor.Fail, "state_read_only"},
		"state unwritable":   {"state directory", func(_ *doctor.Host, p *probe) { p.disk.Writable = false }, doctor.Fail, "state_unwritable"},
		"state full":         {"state directory", func(_ *doctor.Host, p *probe) { p.disk.Free = 0 }, doctor.Fail, "state_full"},
		"state nearly full":  {"state directory", func(_ *doctor.Host, p *probe) { p.disk.Free = 1 << 20 }, doctor.Warn, "state_low"},
		"state unclear":      {"state directory", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"disk": errors.New("EIO")} }, doctor.Unknown, "state_unknown"},
		"changed policy": {"policy files", func(h *doctor.Host, _ *probe) {
			h.Policies = []doctor.PolicyFound{{Path: "/w/.pinfold.json", Err: unavailable("policy_changed", "x", "y")}}
		}, doctor.Fail, "policy_changed"},
		"own policy": {"policy files", func(h *doctor.Host, _ *probe) {
			h.Policies = []doctor.PolicyFound{{Path: "/p", Trusted: true, Used: true}}
		}, doctor.OK, "ok"},
		"inside pinfold": {"container", within, doctor.Fail, "inside_pinfold"},
		"inside, state":  {"state directory", within, doctor.Unknown, "state_unknown"},
		"inside, userns": {"user namespaces", within, doctor.Unknown, "userns_unknown"},
		"inside pinfold's container": {"container", func(h *doctor.Host, p *probe) {
			mode(".pinfold", 0o755|fs.ModeDir)(h, p)
		}, doctor.Fail, "inside_pinfold"},
		"another bubblewrap": {"container", func(h *doctor.Host, p *probe) {
			within(h, p)
			file("proc/self/mountinfo", "1 0 8:1 / / ro - ext4 /dev/sda1 rw")(h, p)
		}, doctor.OK, "ok"},
		"owner unmapped":  {"user mapping", unmapped("65534"), doctor.Fail, "user_unmapped"},
		"bwrap not asked": {"bubblewrap", unmapped("65534"), doctor.Unknown, "bwrap_unknown"},
		"owner mapped":    {"user mapping", unmapped("1234"), doctor.OK, "ok"},
		"mapping unclear": {"user mapping", func(h *doctor.Host, p *probe) {
			unmapped("65534")(h, p)
			p.broken = map[string]error{"disk": errors.New("EIO")}
		}, doctor.Unknown, "mapping_unknown"},
		"clone off, root": {"user namespaces", func(h *doctor.Host, p *probe) {
			file("proc/sys/kernel/unprivileged_userns_clone", "0")(h, p)
			file("proc/self/status", "CapEff:\t00000000a80425fb")(h, p)
			h.UID, p.missing = 0, map[string]bool{"user": true}
		}, doctor.Fail, "userns_clone_off"},
		"untrusted policy": {"policy files", func(h *doctor.Host, _ *probe) { h.Policies = []doctor.PolicyFound{{Path: "/w/.pinfold.json"}} }, doctor.Warn, "policy_untrusted"},
		"launch unclear":   {"launch: grants", func(_ *doctor.Host, p *probe) { p.launch = errors.New("timeout") }, doctor.Unknown, "launch_failed"},
		"launch refused":   {"launch: empty policy", func(_ *doctor.Host, p *probe) { p.launch = &policy.Refusal{Code: "bwrap_failed"} }, doctor.Fail, "bwrap_failed"},
		"sockets refused": {"launch: grants", func(_ *doctor.Host, p *probe) {
			p.sockets = &policy.Refusal{Code: "field_unavailable", Subject: "sockets"}
		}, doctor.Warn, "sockets_unavailable"},
		"two of a name":     {"PATH", twoOnPath("/opt/bin", "/usr/bin"), doctor.Warn, "shadowed"},
		"one by two names":  {"PATH", twoOnPath("/bin", "/usr/bin"), doctor.OK, "ok"},
		"kernel unreadable": {"kernel", func(h *doctor.Host, _ *probe) { h.Root = fstest.MapFS{} }, doctor.Unknown, "kernel_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good()
			h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", State: "/home/ann/.local/state/pinfold"}
			p.disk.Owner = 1000
			c.mutate(h, &p)
			h.Probe = p
			rows := doctor.Run(t.Context(), h, doctor.Checks())
			i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == c.row })
			if i < 0 {
				t.Fatalf("no row %q", c.row)
			}
			if r := rows[i]; r.Status != c.status || r.Code != c.code {
				t.Errorf("got %s %s (%s)", r.Status, r.Code, r.Seen)
			}
		})
	}
}

// mode makes an entry of a mode.
func mode(name string, m fs.FileMode) func(*doctor.Host, *probe) {
	return func(h *doctor.Host, _ *probe) { h.Root.(fstest.MapFS)[name] = &fstest.MapFile{Mode: m} }
}

// file writes a file.
func file(name, text string) func(*doctor.Host, *probe) {
	return func(h *doctor.Host, _ *probe) {
		h.Root.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
	}
}

// twoOnPath puts a bubblewrap into each of two directories.
func twoOnPath(one, other string) func(*doctor.Host, *probe) {
	return func(h *doctor.Host, p *probe) {
		h.Path = []string{one, other}
		for _, dir := range h.Path {
			mode(dir[1:]+"/bwrap", 0o755)(h, p)
		}
	}
}

// untrusted is a bubblewrap that wrap refuses, of a mode.
func untrusted(m fs.FileMode) func(*doctor.Host, *probe) {
	return func(h *doctor.Host, p *probe) {
		mode("opt/bin/bwrap", m)(h, p)
		h.Path = []string{"/nowhere", "/opt/bin"}
		p.bwrapErr = unavailable("bwrap_untrusted", "cannot use bubblewrap: it is wrong", "install it where only root can write")
	}
}

func selinuxOff(h *doctor.Host, p *probe) {
	file("sys/fs/selinux/enforce", "1")(h, p)
	file("sys/fs/selinux/booleans/unconfined_create_user_ns", "0 0")(h, p)
}

func selinuxDenies(h *doctor.Host, p *probe) {
	file("sys/fs/selinux/enforce", "1")(h, p)
	file("sys/fs/selinux/booleans/deny_execmem", "1 1")(h, p)
	file("sys/fs/selinux/booleans/deny_userns", "1 1")(h, p)
	p.missing = map[string]bool{"user": true}
}

func selinuxElse(h *doctor.Host, p *probe) {
	file("sys/fs/selinux/enforce", "1")(h, p)
	file("sys/fs/selinux/booleans/allow_userns", "1 1")(h, p)
	p.missing = map[string]bool{"user": true}
}

func fewNamespaces(h *doctor.Host, p *probe) {
	file("proc/sys/user/max_user_namespaces", "1")(h, p)
	p.missing = map[string]bool{"user": true}
}

func filter(h *doctor.Host, p *probe) {
	file("proc/self/status", "Name:\tsh\nSeccomp:\t2")(h, p)
	p.missing = map[string]bool{"user": true}
}

// unmapped is a user namespace in which / belongs to user 65534, and what
// isn't known shows as overflow.
func unmapped(overflow string) func(*doctor.Host, *probe) {
	return func(h *doctor.Host, p *probe) {
		file("proc/self/uid_map", "         0       1001          1")(h, p)
		file("proc/sys/kernel/overflowuid", overflow)(h, p)
		p.disk.Owner = 65534
	}
}

func procCovered(h *doctor.Host, p *probe) {
	file("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /proc/keys rw - tmpfs none rw")(h, p)
	p.missing = map[string]bool{"proc": true}
}

func procSysClosed(h *doctor.Host, p *probe) {
	file("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 /sys /proc/sys ro,nosuid - proc proc rw")(h, p)
	p.missing = map[string]bool{"user": true}
}

// within is the inside of a boundary of pinfold's own.
func within(h *doctor.Host, p *probe) {
	file("proc/1/cmdline", "/usr/bin/bwrap\x00--args\x009\x00--\x00/proc/self/fd/6\x00")(h, p)
	file("proc/self/status", "Name:\tpinfold\nNoNewPrivs:\t1\nSeccomp:\t2")(h, p)
	file("proc/self/mountinfo", "1 0 8:1 / / ro - ext4 /dev/sda1 rw\n2 1 0:5 / /dev/console ro,nosuid - tmpfs tmpfs rw")(h, p)
	p.missing = map[string]bool{"user": true, "unshare": true, "openat2": true}
}
