package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// container names the container that pinfold itself runs in, "" for none.
// /.dockerenv is docker's, /run/.containerenv podman's and buildah's;
// Kubernetes mounts a service account's files. Where podman mounts over /run
// (--read-only) the "container" variable tells, of which systemd makes
// /run/systemd/container.
func (h *Host) container() string {
	if h.isOwnBoundary() {
		return ownBoundary
	}
	for _, mark := range []struct{ file, name string }{
		{"run/secrets/kubernetes.io", kubernetes},
		{"var/run/secrets/kubernetes.io", kubernetes},
		{".dockerenv", "docker"},
		{"run/.containerenv", "podman"},
	} {
		if h.exists(mark.file) {
			return mark.name
		}
	}
	if v, err := h.read("proc/version"); err == nil && strings.Contains(v, gVisor) {
		return gVisor
	}
	if v := h.containerVariable(); v != "" && v != "wsl" {
		return v
	}
	if v, err := h.read("proc/1/cgroup"); err == nil {
		for _, mark := range []string{"docker", kubernetes, "lxc", "containerd"} {
			if strings.Contains(v, mark) {
				return mark
			}
		}
	}
	return ""
}

// containerVariable is what engines tell their containers of themselves:
// systemd.io/CONTAINER_INTERFACE. Only root can read that of a pid 1 that runs
// as root.
func (h *Host) containerVariable() string {
	if v, err := h.read("run/systemd/container"); err == nil && v != "" {
		return strings.TrimSpace(v)
	}
	for _, name := range []string{"proc/1/environ", "proc/self/environ"} {
		text, err := h.read(name)
		if err != nil {
			continue
		}
		for variable := range strings.SplitSeq(text, "\x00") {
			switch v, found := strings.CutPrefix(variable, "container="); {
			case v == "oci": // an old podman's
				return "podman"
			case found && v != "":
				return v
			}
		}
	}
	return ""
}

// kubernetes is what it calls its own branch of the cgroups, gVisor what its
// /proc/version has.
const (
	kubernetes = "kubepods"
	gVisor     = "gVisor"
)

// checkContainer says where pinfold itself runs; being root there is not
// being root of the machine.
func checkContainer(_ context.Context, h *Host) Result {
	name := h.container()
	switch {
	case name == "":
		return ok("not in a container")
	case name == ownBoundary:
		return h.inside()
	case name == gVisor:
		return warn("inside_gvisor", "in gVisor, which offers no Landlock and only some namespaces", h.kernelFix())
	case h.UID == 0:
		return warn("root_in_container", "root inside a container ("+name+"): the rows below say what that allows", "")
	}
	return ok("in a container (" + name + ")")
}

// checkMapping: in a user namespace that doesn't know who the root directory
// belongs to, nobody can tell who may replace what is in it, bubblewrap first of
// all. What isn't known shows as /proc/sys/kernel/overflowuid:
// user_namespaces(7).
func checkMapping(_ context.Context, h *Host) Result {
	text, err := h.read("proc/self/uid_map")
	switch {
	case isNotExist(err):
		return ok("no user namespaces")
	case err != nil:
		return unknown("mapping_unknown", err.Error())
	}
	f := strings.Fields(text)
	if len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == everyUser {
		return ok("all users are known")
	}
	if h.Probe == nil {
		return unknown("mapping_unknown", "the file system was not asked whose / is")
	}
	root, err := h.Probe.Disk("/")
	if err != nil {
		return unknown("mapping_unknown", err.Error())
	}
	if overflow, err := h.read("proc/sys/kernel/overflowuid"); err == nil && overflow == strconv.Itoa(root.Owner) {
		h.first = "a user namespace that knows the owner of /"
		return fail("user_unmapped", "in a user namespace that doesn't map the owner of /: it shows as user "+overflow,
			words("start pinfold outside of the user namespace (or container) that it runs in"))
	}
	return ok("in a user namespace that maps the owner of /")
}

// everyUser is the length of the first user namespace's own map.
const everyUser = "4294967295"

// containerFix is what to add to the options of the container: no more than
// what is seen to be in the way, since each takes something from the container.
func (h *Host) containerFix(filter bool) string {
	name := h.container()
	run, unmask := "docker run", "systempaths=unconfined"
	switch name {
	case "docker", "containerd":
	case "podman":
		run, unmask = "podman run", "unmask=ALL"
	case kubernetes:
		return words("set securityContext.seccompProfile.type: Unconfined and procMount: Unmasked on the pod (which needs hostUsers: false)")
	case "lxc":
		return words("on the host: incus config set NAME security.nesting=true (lxc config set with LXD, pct set ID --features nesting=1 with Proxmox)")
	case gVisor:
		return h.kernelFix()
	case ownBoundary:
		return words(Outside)
	default:
		return words("run pinfold outside of the container")
	}
	host, options := h.confinement()
	if filter {
		options = append([]string{"seccomp=unconfined"}, options...)
	}
	if h.masked() {
		options = append(options, unmask)
	}
	flags := ""
	for _, o := range options {
		flags += "--security-opt " + o + " "
	}
	if h.rootWithoutSetfcap() {
		flags += "--cap-add SETFCAP "
	}
	if flags == "" {
		return words("run pinfold outside of the container")
	}
	return host + words("start the container with this as well: "+run+" "+flags+"…")
}

// confinement is what takes a container's processes out of the reach of a
// security module that keeps them from mounting (docker's AppArmor profile:
// "deny mount"; SELinux's container_t), and what that takes on the host.
// Where AppArmor restricts user namespaces, being unconfined isn't enough: it
// takes a profile that says "userns,".
func (h *Host) confinement() (host string, options []string) {
	switch label := h.label(); {
	case h.appArmorRestricts() && !h.canAdminister():
		return words("on the host: "+strings.ReplaceAll(appArmorProfile("pinfold-container", ""), "\n", " && ")) + "\n",
			[]string{"apparmor=pinfold-container"}
	case strings.HasSuffix(label, "(enforce)"):
		return "", []string{"apparmor=unconfined"}
	case strings.Contains(label, ":container_t:"):
		return "", []string{"label=disable"}
	}
	return "", nil
}

// label is what the security module calls this process: AppArmor answers
// "docker-default (enforce)", SELinux "system_u:system_r:container_t:s0:c1,c2"
// (Documentation/admin-guide/LSM/index.rst, /proc/PID/attr).
func (h *Host) label() string {
	for _, name := range []string{"proc/self/attr/apparmor/current", "proc/self/attr/current"} {
		if v, err := h.read(name); err == nil && v != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// masked reports whether parts of /proc are covered, /proc/sys among them.
func (h *Host) masked() bool { return len(h.mountedOver("/proc")) > 0 }

// status is a field of /proc/self/status: proc(5).
func (h *Host) status(field string) string {
	text, err := h.read("proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		if v, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// filtered reports whether a seccomp filter is in force.
func (h *Host) filtered() bool { return h.status("Seccomp") == "2" }

// The capabilities asked about: capabilities(7).
const (
	capSysAdmin = 21
	capSetfcap  = 31
)

// lacks reports whether this process is known to be without a capability.
func (h *Host) lacks(capability int) bool {
	set, err := strconv.ParseUint(h.status("CapEff"), 16, 64)
	return err == nil && set&(1<<capability) == 0
}

// canAdminister: root of a container mostly can't.
func (h *Host) canAdminister() bool { return h.UID == 0 && !h.lacks(capSysAdmin) }

// rootWithoutSetfcap: since 5.12 whoever is root needs that capability to make
// a user namespace that knows root (verify_root_map in kernel/user_namespace.c).
func (h *Host) rootWithoutSetfcap() bool { return h.UID == 0 && h.lacks(capSetfcap) }

// namespaceCalls are those that bubblewrap can't do without and that profiles
// refuse; docker's refuses the last one even to who has CAP_SYS_ADMIN, and only
// to them can a filter's no be told from the kernel's own.
var namespaceCalls = []string{"unshare", "clone", "mount", "pivot_root"}

// refusedCall is the first of them that a filter refuses, "" for none. The
// others aren't asked: a filter may end the process for one, where it answers
// another. Where the kernel isn't asked, docker's profile is taken for what it
// is.
func (h *Host) refusedCall() string {
	calls := namespaceCalls
	if h.lacks(capSysAdmin) {
		calls = calls[:len(calls)-1]
	}
	switch {
	case !h.filtered():
		return ""
	case h.Probe == nil && h.container() == "docker":
		return calls[0]
	case h.Probe == nil:
		return ""
	}
	for _, name := range calls {
		if errors.Is(h.Probe.Syscall(name), ErrNotThere) {
			return name
		}
	}
	return ""
}

// kernelFix is what helps where the kernel refuses a call that it should have:
// a profile in front of it, else a newer one.
func (h *Host) kernelFix() string {
	switch name := h.container(); {
	case name == gVisor:
		return words("run pinfold outside of gVisor")
	case h.filtered() && name != "":
		return h.containerFix(true)
	case h.filtered():
		return words("a seccomp filter is in force here: start pinfold without it")
	}
	return words("upgrade the kernel")
}

// onHost is a fix that has to be typed outside of the container that pinfold
// is in: what it changes is the machine's.
func (h *Host) onHost(fix string) string {
	if h.container() == "" {
		return fix
	}
	return words("on the host: " + strings.ReplaceAll(fix, "\n", "\n# on the host: "))
}
