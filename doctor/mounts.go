package doctor

import (
	"context"
	"slices"
	"strings"
)

// mount is what matters here of a line of mountinfo: proc(5).
type mount struct {
	point  string
	shared bool
	ro     bool
}

// mounts reads the mount table, in the kernel's order.
func (h *Host) mounts() ([]mount, error) {
	text, err := h.read("proc/self/mountinfo")
	var all []mount
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		end := slices.Index(f, "-")
		if end < 6 {
			continue
		}
		all = append(all, mount{
			point:  f[4],
			shared: slices.ContainsFunc(f[6:end], func(s string) bool { return strings.HasPrefix(s, "shared:") }),
			ro:     slices.Contains(strings.Split(f[5], ","), "ro"),
		})
	}
	return all, err
}

// mountedOver lists what is mounted beneath a directory. A row is one line,
// so a few do.
func (h *Host) mountedOver(dir string) []string {
	all, err := h.mounts()
	if err != nil {
		return nil
	}
	var over []string
	for _, m := range all {
		if strings.HasPrefix(m.point, dir+"/") && !slices.Contains(over, m.point) {
			over = append(over, m.point)
		}
	}
	slices.Sort(over)
	return over[:min(len(over), 8)]
}

// checkMounts: without /proc nothing can be told, and in a chroot whose root is
// no mount neither bubblewrap nor the guard can work. Of propagation it only
// tells: bubblewrap takes a shared root as a slave, so what the host mounts
// later shows inside, where Landlock and the watch of the boundary meet it.
func checkMounts(_ context.Context, h *Host) Result {
	if !h.exists("proc/self") {
		return fail("no_proc", "/proc isn't mounted", "sudo mount -t proc proc /proc")
	}
	all, err := h.mounts()
	if err != nil {
		return unknown("mounts_unknown", "cannot read /proc/self/mountinfo: "+err.Error())
	}
	i := slices.IndexFunc(all, func(m mount) bool { return m.point == "/" })
	if i < 0 {
		return fail("no_root_mount", "the root directory is no mount (a chroot)",
			words("start pinfold outside the chroot, or make its root a mount: mount --bind DIR DIR"))
	}
	seen := "/ is private: the host's later mounts don't show inside"
	if all[i].shared {
		seen = "/ is shared: the host's later mounts show inside, where nothing can be written to them"
	}
	if all[i].ro {
		seen += "; it is read-only"
	}
	return ok(seen)
}
