package doctor

import (
	"slices"
	"strings"

	"pinfold/bwrap"
)

// InsidePinfold is the code of a machine that is the inside of a boundary of
// pinfold's own: no other can be made there.
const InsidePinfold = "inside_pinfold"

// Outside is what to do there.
const Outside = "start it outside of that boundary: what is started inside is held by it already"

// Inside reports whether that is so. It decides nothing: it words a no.
func (h *Host) Inside() bool { return h.container() == ownBoundary }

// ownBoundary is what container calls it.
const ownBoundary = "pinfold"

// isOwnBoundary looks for what pinfold alone leaves: in a container its
// directory; with a filter and a pid 1 that was to execute the stub, however it
// was started itself, the cover on /dev/console.
func (h *Host) isOwnBoundary() bool {
	if h.exists(".pinfold") {
		return true
	}
	first, err := h.read("proc/1/cmdline")
	stub := strings.HasSuffix(first, "\x00--\x00"+bwrap.StubFile) || strings.HasSuffix(first, "\x00--\x00"+bwrap.StubPath)
	if err != nil || !stub || !h.filtered() || h.status("NoNewPrivs") != "1" {
		return false
	}
	all, err := h.mounts()
	return err == nil && slices.ContainsFunc(all, func(m mount) bool { return m.point == "/dev/console" && m.ro })
}

// inside is the row that says so, and keeps others from looking for causes.
func (h *Host) inside() Result {
	h.first = "a place outside of pinfold's boundary"
	return fail(InsidePinfold, "inside pinfold's own boundary, where no other can be made", words(Outside))
}
