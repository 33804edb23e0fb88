package doctor

import (
	"context"
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
func (h *Host) usernsCause() (code, why, fix string, found bool) {
	for _, c := range usernsCauses {
		if code, why, fix, found = c(h); found {
			return code, why, fix, true
		}
	}
	return "", "", "", false
}

var usernsCauses = []func(*Host) (code, why, fix string, found bool){
	causeMaxNamespaces, causeUsernsClone, causeAppArmor, causeSELinux, causeContainer,
}

// causeMaxNamespaces: user_namespaces(7), the limit counts for everyone.
func causeMaxNamespaces(h *Host) (string, string, string, bool) {
	v, err := h.read("proc/sys/user/max_user_namespaces")
	if err != nil || v != "0" {
		return "", "", "", false
	}
	return "userns_limit_zero", "user.max_user_namespaces is 0",
		persist("user.max_user_namespaces", "15000"), true
}

// causeUsernsClone is a patch of Debian's kernels (and of hardened ones).
func causeUsernsClone(h *Host) (string, string, string, bool) {
	v, err := h.read("proc/sys/kernel/unprivileged_userns_clone")
	if err != nil || v != "0" || h.UID == 0 {
		return "", "", "", false
	}
	return "userns_clone_off", "kernel.unprivileged_userns_clone is 0",
		persist("kernel.unprivileged_userns_clone", "1"), true
}

// causeAppArmor: Ubuntu 23.10 and later let an unprivileged user namespace
// start but take its capabilities away, unless the program has a profile that
// says "userns,". The profile is the better fix: the switch is for all.
func causeAppArmor(h *Host) (string, string, string, bool) {
	v, err := h.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if err != nil || v == "0" || h.UID == 0 {
		return "", "", "", false
	}
	if h.exists("etc/apparmor.d/bwrap-userns-restrict") || h.exists("etc/apparmor.d/bwrap") {
		return "apparmor_profile", "AppArmor restricts user namespaces, and its profile for bwrap takes capabilities from what bwrap starts",
			appArmorFix, true
	}
	return "apparmor_userns", "kernel.apparmor_restrict_unprivileged_userns is 1, and no AppArmor profile lets bwrap make user namespaces", appArmorFix, true
}

// appArmorFix gives bwrap the profile that flatpak's packaging gives it.
const appArmorFix = `printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\n  userns,\n}\n' | sudo tee /etc/apparmor.d/bwrap
sudo apparmor_parser -r /etc/apparmor.d/bwrap`

// causeSELinux: the boolean exists in some policies only.
func causeSELinux(h *Host) (string, string, string, bool) {
	v, err := h.read("sys/fs/selinux/booleans/unconfined_user_ns_create")
	if err != nil || !strings.HasPrefix(v, "0") {
		return "", "", "", false
	}
	return "selinux_userns", "the SELinux boolean unconfined_user_ns_create is off", "sudo setsebool -P unconfined_user_ns_create on", true
}

// causeContainer: a container's default seccomp profile refuses unshare(2)
// and mount(2), and a container without its own /proc masks gone refuses a
// fresh /proc.
func causeContainer(h *Host) (string, string, string, bool) {
	name := h.container()
	if name == "" {
		return "", "", "", false
	}
	status, err := h.read("proc/self/status")
	filtered := err == nil && strings.Contains(status, "Seccomp:\t2")
	why := "pinfold runs inside a container (" + name + ")"
	if filtered {
		why += " whose seccomp profile refuses new namespaces"
	}
	return "inside_container", why, containerFix(name), true
}

func containerFix(name string) string {
	switch name {
	case "docker", "containerd":
		return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
	case "podman":
		return "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …"
	case "kubepods":
		return "set securityContext.seccompProfile.type: Unconfined and procMount: Unmasked on the pod"
	}
	return "run pinfold outside of the container"
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
		return warn("inside_gvisor", "in gVisor, which offers no Landlock and only some namespaces", "run pinfold outside of gVisor")
	case h.UID == 0:
		return warn("root_in_container", "root inside a container ("+name+"): the rows below say what that allows", "")
	}
	return ok("in a container (" + name + ")")
}
