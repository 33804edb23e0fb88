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
	r := h.userNamespaces(ctx)
	h.noUserns = r.Status == Fail
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
	case !errors.Is(err, ErrNotThere):
		return unknown("userns_unknown", err.Error())
	}
	if code, why, fix, found := h.usernsCause(); found {
		return fail(code, why, fix)
	}
	return fail("userns_refused", "a user namespace could not be made: "+err.Error(), "ask who administers this machine why user namespaces are refused")
}

// usernsByFacts is for fixtures: a switch that is off is conclusive, none
// being off is not.
func (h *Host) usernsByFacts() Result {
	if code, why, fix, found := h.usernsCause(); found {
		return fail(code, why, fix)
	}
	return unknown("userns_unknown", "no switch is off, but none was made")
}

// notAsked is what rows say that need a user namespace first.
const notAsked = "not asked: a user namespace comes first"

func checkNamespaces(ctx context.Context, h *Host) Result {
	if h.Probe == nil || h.noUserns {
		return unknown("namespaces_unknown", notAsked)
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
	if _, _, fix, found := h.usernsCause(); found {
		return fix
	}
	return "enable the namespaces in the kernel's configuration (CONFIG_NAMESPACES and each CONFIG_*_NS)"
}

// checkProc: the kernel refuses a fresh /proc where the one that is visible
// has parts masked ("mount too revealing", mount_too_revealing in
// fs/namespace.c), as in most containers.
func checkProc(ctx context.Context, h *Host) Result {
	if h.Probe == nil || h.noUserns {
		return unknown("proc_unknown", notAsked)
	}
	err := h.Probe.Namespaces(ctx, "user", "pid", "proc")
	switch {
	case err == nil:
		return ok("a fresh /proc can be mounted")
	case !errors.Is(err, ErrNotThere):
		return unknown("proc_unknown", err.Error())
	}
	if name := h.container(); name != "" {
		return fail("proc_masked", "a fresh /proc is refused: the container's own /proc is partly masked", containerFix(name))
	}
	return fail("proc_refused", "a fresh /proc is refused", "unmount what is mounted over parts of /proc: findmnt -R /proc")
}
