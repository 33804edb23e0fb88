package doctor

import (
	"context"
	"errors"
	"strings"
)

// namespaceKinds are probed together first, and one by one to name the one
// that fails.
var namespaceKinds = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

func checkUserNamespaces(ctx context.Context, h *Host) Result {
	if h.first != "" {
		return unknown("userns_unknown", h.notAsked())
	}
	r := h.userNamespaces(ctx)
	if r.Status == Fail {
		h.first = "a user namespace"
	}
	return r
}

func (h *Host) userNamespaces(ctx context.Context) Result {
	if h.Probe == nil {
		return h.usernsByFacts()
	}
	err := h.Probe.Namespaces(ctx, "user")
	switch {
	case err == nil:
		return ok("made one")
	case errors.Is(err, ErrKilled):
		return fail("userns_filtered", "a seccomp filter is in force that ends what makes namespaces or mounts", h.kernelFix())
	case !errors.Is(err, ErrNotThere):
		return unknown("userns_unknown", err.Error())
	}
	if r, found := h.usernsCause(); found {
		return r
	}
	if h.filtered() {
		return fail("userns_filtered", "a seccomp filter is in force that refuses new namespaces", words("start pinfold without that filter"))
	}
	seen := "a user namespace could not be made: " + err.Error()
	if v, err := h.read("sys/fs/selinux/enforce"); err == nil && v == "1" {
		return fail("userns_refused", seen+"; SELinux is enforcing", words("see, as root, whether SELinux refused it: ausearch -m avc -ts recent | grep user_namespace"))
	}
	return fail("userns_refused", seen, words("ask who administers this machine why user namespaces are refused"))
}

// usernsByFacts is for fixtures: a switch that is off is conclusive, none
// being off is not.
func (h *Host) usernsByFacts() Result {
	if r, found := h.usernsCause(); found {
		return r
	}
	return unknown("userns_unknown", "no switch is off, but none was made")
}

// notAsked is what rows say that need something else first.
func (h *Host) notAsked() string {
	if h.first == "" {
		return "nothing was started"
	}
	return "not asked: " + h.first + " comes first"
}

func checkNamespaces(ctx context.Context, h *Host) Result {
	if h.Probe == nil || h.first != "" {
		return unknown("namespaces_unknown", h.notAsked())
	}
	if err := h.Probe.Namespaces(ctx, namespaceKinds...); err == nil {
		return ok(strings.Join(namespaceKinds, " "))
	}
	var bad []string
	for _, kind := range namespaceKinds[1:] {
		if err := h.Probe.Namespaces(ctx, "user", kind); err != nil {
			bad = append(bad, kind)
		}
	}
	if len(bad) == 0 {
		return unknown("namespaces_unknown", "each can be made, all together not")
	}
	return fail("namespace_refused", "cannot make: "+strings.Join(bad, ", "), h.namespaceFix())
}

func (h *Host) namespaceFix() string {
	if r, found := h.usernsCause(); found {
		return r.Fix
	}
	return words("enable the namespaces in the kernel's configuration (CONFIG_NAMESPACES and each CONFIG_*_NS)")
}

// checkProc: the kernel refuses a fresh /proc where the one that is visible
// has parts masked ("mount too revealing", mount_too_revealing in
// fs/namespace.c), as in most containers.
func checkProc(ctx context.Context, h *Host) Result {
	if h.Probe == nil || h.first != "" {
		return unknown("proc_unknown", h.notAsked())
	}
	err := h.Probe.Namespaces(ctx, "user", "pid", "proc")
	switch {
	case err == nil:
		return ok("a fresh /proc can be mounted")
	case !errors.Is(err, ErrNotThere):
		return unknown("proc_unknown", err.Error())
	}
	seen := "a fresh /proc is refused"
	if over := h.mountedOver("/proc"); len(over) > 0 {
		seen += ", since the one here is partly covered: " + strings.Join(over, " ")
	}
	if h.container() != "" {
		return fail("proc_masked", seen+"; a container masks its own", h.containerFix(false))
	}
	return fail("proc_refused", seen, h.uncover())
}

// uncover takes away what covers parts of /proc.
func (h *Host) uncover() string {
	over := h.mountedOver("/proc")
	if len(over) == 0 {
		return words("see what covers it: findmnt -R /proc")
	}
	return "sudo umount " + strings.Join(over, " ")
}
