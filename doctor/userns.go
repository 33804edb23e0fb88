package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// container names the container that pinfold itself runs in, "" for none.
// /.dockerenv is docker's, /run/.containerenv podman's and buildah's; the
// "container" variable of pid 1 is systemd's convention.
func (h *Host) container() string {
	switch {
	case h.exists(".dockerenv"):
		return "docker"
	case h.exists("run/.containerenv"):
		return "podman"
	}
	if v, err := h.read("proc/version"); err == nil && strings.Contains(v, "gVisor") {
		return "gVisor"
	}
	if v, err := h.read("proc/1/cgroup"); err == nil {
		for _, mark := range []string{"docker", "kubepods", "lxc", "containerd"} {
			if strings.Contains(v, mark) {
				return mark
			}
		}
	}
	return ""
}

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
	causeMaxNamespaces, causeUsernsClone, causeAppArmor, causeSELinux, causeReadOnly, causeContainer, causeNotBuilt,
}

// fewNamespaces is below every default: the kernel derives it from memory,
// and a machine with half a gigabyte gets 2,000.
const fewNamespaces = 100

// causeMaxNamespaces: namespaces(7), the limit counts for everyone, and for
// all that a user has made.
func causeMaxNamespaces(h *Host) (Result, bool) {
	v, err := h.read("proc/sys/user/max_user_namespaces")
	n, notNumber := strconv.Atoi(v)
	fix := persist("user.max_user_namespaces", "15000")
	switch {
	case err != nil || notNumber != nil || n >= fewNamespaces:
		return Result{}, false
	case n == 0:
		return fail("userns_limit_zero", "user.max_user_namespaces is 0", fix), true
	}
	return fail("userns_limit_low", "user.max_user_namespaces is "+v+", and none is left", fix), true
}

// causeUsernsClone is a patch of Debian's kernels (and of hardened ones).
func causeUsernsClone(h *Host) (Result, bool) {
	v, err := h.read("proc/sys/kernel/unprivileged_userns_clone")
	if err != nil || v != "0" || h.UID == 0 {
		return Result{}, false
	}
	return fail("userns_clone_off", "kernel.unprivileged_userns_clone is 0", persist("kernel.unprivileged_userns_clone", "1")), true
}

// causeAppArmor: Ubuntu 23.10 and later let an unprivileged user namespace
// start but take its capabilities away, unless the program has a profile that
// says "userns,". The profile is the better fix: the switch is for all.
func causeAppArmor(h *Host) (Result, bool) {
	v, err := h.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if err != nil || v == "0" || h.UID == 0 {
		return Result{}, false
	}
	if h.exists("etc/apparmor.d/bwrap-userns-restrict") || h.exists("etc/apparmor.d/bwrap") {
		return fail("apparmor_profile", "AppArmor restricts user namespaces, and its profile for bwrap takes capabilities from what bwrap starts",
			h.appArmorFix()), true
	}
	return fail("apparmor_userns", "kernel.apparmor_restrict_unprivileged_userns is 1, and no AppArmor profile lets bwrap make user namespaces",
		h.appArmorFix()), true
}

// appArmorFix gives bwrap a profile that leaves it alone. The one that some
// packages bring for the same program has to go: two would contend for it.
func (h *Host) appArmorFix() string {
	fix := ""
	if other := "etc/apparmor.d/bwrap-userns-restrict"; h.exists(other) {
		fix = "sudo apparmor_parser -R /" + other + "\nsudo mv /" + other + " /etc/apparmor.d/disable/\n"
	}
	return fix + `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/bwrap
sudo apparmor_parser -r /etc/apparmor.d/bwrap`
}

// causeSELinux: the boolean exists in some policies only.
func causeSELinux(h *Host) (Result, bool) {
	v, err := h.read("sys/fs/selinux/booleans/unconfined_user_ns_create")
	if err != nil || !strings.HasPrefix(v, "0") {
		return Result{}, false
	}
	return fail("selinux_userns", "the SELinux boolean unconfined_user_ns_create is off", "sudo setsebool -P unconfined_user_ns_create on"), true
}

// causeReadOnly: bubblewrap's --disable-userns writes to /proc/sys, which
// containers mount read-only even where no filter is in force.
func causeReadOnly(h *Host) (Result, bool) {
	all, err := h.mounts()
	ro := slices.ContainsFunc(all, func(m mount) bool { return m.point == "/proc/sys" && m.ro })
	if err != nil || !ro || h.filtered() {
		return Result{}, false
	}
	const why = "/proc/sys is mounted read-only, and user namespaces have to be closed to the command there"
	if name := h.container(); name != "" {
		return fail("proc_sys_read_only", why, containerFix(name)), true
	}
	return fail("proc_sys_read_only", why, "sudo mount -o remount,rw /proc/sys"), true
}

// causeContainer: a container's default seccomp profile refuses unshare(2)
// and mount(2).
func causeContainer(h *Host) (Result, bool) {
	name := h.container()
	if name == "" {
		return Result{}, false
	}
	why := "pinfold runs inside a container (" + name + ")"
	if h.filtered() {
		why += " whose seccomp profile refuses new namespaces"
	}
	return fail("inside_container", why, containerFix(name)), true
}

// causeNotBuilt: the limit is there only with user namespaces themselves
// (kernel/ucount.c, CONFIG_USER_NS).
func causeNotBuilt(h *Host) (Result, bool) {
	if !h.exists("proc/sys") || h.exists("proc/sys/user/max_user_namespaces") {
		return Result{}, false
	}
	return fail("userns_not_built", "the kernel was built without user namespaces", words("use a kernel with CONFIG_USER_NS=y")), true
}

// filtered reports whether a seccomp filter is in force: proc(5), "Seccomp".
func (h *Host) filtered() bool {
	status, err := h.read("proc/self/status")
	return err == nil && strings.Contains(status, "Seccomp:\t2")
}

func containerFix(name string) string {
	switch name {
	case "docker", "containerd":
		return words("start the container with: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …")
	case "podman":
		return words("start the container with: podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …")
	case "kubepods":
		return words("set securityContext.seccompProfile.type: Unconfined and procMount: Unmasked on the pod")
	}
	return words("run pinfold outside of the container")
}

// kernelFix is what helps where the kernel refuses a call that it should have:
// a profile in front of it, else a newer one.
func (h *Host) kernelFix() string {
	switch name := h.container(); {
	case name != "":
		return containerFix(name)
	case h.filtered():
		return words("a seccomp filter is in force here: start pinfold without it")
	}
	return words("upgrade the kernel")
}

// persist sets a sysctl now and for every later boot.
func persist(key, value string) string {
	return "sudo sysctl -w " + key + "=" + value + "\necho '" + key + "=" + value + "' | sudo tee /etc/sysctl.d/60-pinfold.conf"
}

// checkContainer says where pinfold itself runs; being root there is not
// being root of the machine.
func checkContainer(_ context.Context, h *Host) Result {
	name := h.container()
	switch {
	case name == "":
		return ok("not in a container")
	case name == "gVisor":
		return warn("inside_gvisor", "in gVisor, which offers no Landlock and only some namespaces", words("run pinfold outside of gVisor"))
	case h.UID == 0:
		return warn("root_in_container", "root inside a container ("+name+"): the rows below say what that allows", "")
	}
	return ok("in a container (" + name + ")")
}
