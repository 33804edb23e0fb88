package doctor

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// usernsCause looks for the switch that keeps user namespaces from working,
// in the order in which they take effect.
func (h *Host) usernsCause() (Result, bool) {
	for _, cause := range usernsCauses {
		if r, found := cause(h); found {
			return r, true
		}
	}
	return Result{}, false
}

var usernsCauses = []func(*Host) (Result, bool){
	causeMaxNamespaces, causeUsernsClone, causeFilter, causeAppArmor, causeSELinux, causeSetfcap, causeReadOnly, causeContainer, causeNotBuilt,
}

// fewNamespaces is below every default: the kernel derives it from memory,
// and a machine with half a gigabyte gets 2,000.
const fewNamespaces = 100

// causeMaxNamespaces: namespaces(7), the limit counts for everyone, and for
// all that a user has made.
func causeMaxNamespaces(h *Host) (Result, bool) {
	v, err := h.read("proc/sys/user/max_user_namespaces")
	n, notNumber := strconv.Atoi(v)
	fix := h.setSysctl("user.max_user_namespaces", "15000")
	switch {
	case err != nil || notNumber != nil || n >= fewNamespaces:
		return Result{}, false
	case n == 0:
		return fail("userns_limit_zero", "user.max_user_namespaces is 0", fix), true
	}
	return fail("userns_limit_low", "user.max_user_namespaces is "+v+", and none is left", fix), true
}

// causeUsernsClone is a patch of Debian's kernels (and of hardened ones). It
// asks for a capability of the machine's, which root has lost in the namespace
// in which bubblewrap makes its second one (--disable-userns).
func causeUsernsClone(h *Host) (Result, bool) {
	v, err := h.read("proc/sys/kernel/unprivileged_userns_clone")
	if err != nil || v != "0" {
		return Result{}, false
	}
	return fail("userns_clone_off", "kernel.unprivileged_userns_clone is 0", h.setSysctl("kernel.unprivileged_userns_clone", "1")), true
}

// causeFilter: a container's default seccomp profile refuses unshare(2),
// clone(2) with namespaces and mount(2) to whoever can't administer; others
// allow them, and then something else is in the way.
func causeFilter(h *Host) (Result, bool) {
	call := h.refusedCall()
	switch name := h.container(); {
	case call == "":
		return Result{}, false
	case name != "":
		return fail("inside_container", "pinfold runs inside a container ("+name+") whose seccomp profile refuses "+call, h.containerFix(true)), true
	}
	return fail("userns_filtered", "a seccomp filter is in force that refuses "+call, words("start pinfold without that filter")), true
}

// causeAppArmor: Ubuntu 23.10 and later let an unprivileged user namespace
// start but take its capabilities away, unless the program has a profile that
// says "userns,". The profile is the better fix: the switch is for all.
func causeAppArmor(h *Host) (Result, bool) {
	switch {
	case !h.appArmorRestricts() || h.canAdminister():
		return Result{}, false
	case h.container() != "":
		return fail("apparmor_userns", "kernel.apparmor_restrict_unprivileged_userns is 1 on the host, and this container's AppArmor profile doesn't allow user namespaces",
			h.containerFix(h.refusedCall() != "")), true
	case h.exists("etc/apparmor.d/bwrap-userns-restrict") || h.exists("etc/apparmor.d/bwrap"):
		return fail("apparmor_profile", "AppArmor restricts user namespaces, and its profile for bwrap takes capabilities from what bwrap starts",
			h.appArmorFix()), true
	}
	return fail("apparmor_userns", "kernel.apparmor_restrict_unprivileged_userns is 1, and no AppArmor profile lets bwrap make user namespaces",
		h.appArmorFix()), true
}

func (h *Host) appArmorRestricts() bool {
	v, err := h.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	return err == nil && v != "0"
}

// appArmorFix gives bwrap a profile that leaves it alone. The one that some
// packages bring for the same program has to go: two would contend for it.
func (h *Host) appArmorFix() string {
	fix := ""
	if other := "etc/apparmor.d/bwrap-userns-restrict"; h.exists(other) {
		fix = "sudo apparmor_parser -R /" + other + "\nsudo mv /" + other + " /etc/apparmor.d/disable/\n"
	}
	return fix + appArmorProfile("bwrap", "/usr/bin/bwrap ")
}

// appArmorProfile makes and loads a profile that confines nothing and allows
// user namespaces, for a program or to be named.
func appArmorProfile(name, program string) string {
	return `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile ` + name + " " + program + `flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/` + name + `
sudo apparmor_parser -r /etc/apparmor.d/` + name
}

// causeSELinux: since 6.1 a policy can forbid user namespaces
// (selinux_userns_create in security/selinux/hooks.c), and each may have a
// boolean of its own for it, which its name tells of.
func causeSELinux(h *Host) (Result, bool) {
	if v, err := h.read("sys/fs/selinux/enforce"); err != nil || v != "1" {
		return Result{}, false
	}
	const dir = "sys/fs/selinux/booleans"
	booleans, err := fs.ReadDir(h.Root, dir)
	if err != nil {
		return Result{}, false
	}
	for _, b := range booleans {
		name := b.Name()
		v, err := h.read(dir + "/" + name)
		if err != nil || !aboutUserns(name) {
			continue
		}
		// "1 1": the value, and the one that is pending.
		if on := strings.HasPrefix(v, "1"); on == strings.Contains(name, "deny") {
			return fail("selinux_userns", "the SELinux boolean "+name+" is "+onOff(on), h.onHost("sudo setsebool -P "+name+" "+onOff(!on))), true
		}
	}
	return Result{}, false
}

func aboutUserns(boolean string) bool {
	return slices.ContainsFunc([]string{"userns", "user_ns", "user_namespace"}, func(s string) bool { return strings.Contains(boolean, s) })
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// causeSetfcap is met by root in a container that was given no capabilities.
func causeSetfcap(h *Host) (Result, bool) {
	if !h.rootWithoutSetfcap() {
		return Result{}, false
	}
	fix := words("start pinfold as an ordinary user, or with CAP_SETFCAP")
	if h.container() != "" {
		fix = h.containerFix(false)
	}
	return fail("userns_setfcap", "root without CAP_SETFCAP may not make a user namespace that knows root", fix), true
}

// causeReadOnly: bubblewrap's --disable-userns writes to /proc/sys, which
// containers mount read-only even where no filter is in force.
func causeReadOnly(h *Host) (Result, bool) {
	if !h.procSysReadOnly() {
		return Result{}, false
	}
	const why = "/proc/sys is mounted read-only, and user namespaces have to be closed to the command there"
	if h.container() != "" {
		return fail("proc_sys_read_only", why, h.containerFix(false)), true
	}
	return fail("proc_sys_read_only", why, "sudo mount -o remount,rw /proc/sys"), true
}

// causeContainer is what is left to say of a container that nothing else was
// found out about.
func causeContainer(h *Host) (Result, bool) {
	name := h.container()
	if name == "" {
		return Result{}, false
	}
	return fail("inside_container", "pinfold runs inside a container ("+name+")", h.containerFix(h.filtered())), true
}

// causeNotBuilt: the limit is there only with user namespaces themselves
// (kernel/ucount.c, CONFIG_USER_NS).
func causeNotBuilt(h *Host) (Result, bool) {
	if !h.exists("proc/sys") || h.exists("proc/sys/user/max_user_namespaces") {
		return Result{}, false
	}
	return fail("userns_not_built", "the kernel was built without user namespaces", words("use a kernel with CONFIG_USER_NS=y")), true
}

// procSysReadOnly: a mount table that can't be read tells of none.
func (h *Host) procSysReadOnly() bool {
	all, err := h.mounts()
	return err == nil && slices.ContainsFunc(all, func(m mount) bool { return m.point == "/proc/sys" && m.ro })
}

// setSysctl sets one now and for every later boot, where it can be set.
func (h *Host) setSysctl(key, value string) string {
	fix := "sudo sysctl -w " + key + "=" + value + "\necho '" + key + "=" + value + "' | sudo tee /etc/sysctl.d/60-pinfold.conf"
	if h.procSysReadOnly() {
		return h.onHost(fix)
	}
	return fix
}
