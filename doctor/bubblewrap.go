package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"pinfold/policy"
)

// Bubblewrap is what was found on PATH.
type Bubblewrap struct {
	Path    string
	Version [3]int
}

// The versions of bubblewrap that the tests run against.
var (
	oldestBubblewrap = [3]int{0, 8, 0}
	newestBubblewrap = [3]int{0, 13, 99}
)

func checkBubblewrap(ctx context.Context, h *Host) Result {
	if h.first != "" {
		return unknown("bwrap_unknown", h.notAsked())
	}
	r := h.bubblewrap(ctx)
	if h.Probe != nil && (r.Status == Fail || r.Status == Unknown) {
		h.first = "bubblewrap"
	}
	return r
}

func (h *Host) bubblewrap(ctx context.Context) Result {
	if h.Probe == nil {
		return unknown("bwrap_unknown", "bubblewrap was not looked for")
	}
	b, err := h.Probe.Bubblewrap(ctx)
	if err != nil {
		return h.noBubblewrap(err)
	}
	seen := fmt.Sprintf("%s %d.%d.%d", b.Path, b.Version[0], b.Version[1], b.Version[2])
	switch {
	case less(b.Version, oldestBubblewrap):
		return fail("bwrap_too_old", seen+"; 0.8.0 or newer is needed (--disable-userns)",
			h.distro.install("bubblewrap")+"\n"+words("where that is still older: build a release of github.com/containers/bubblewrap, and put it first on PATH"))
	case less(newestBubblewrap, b.Version):
		return warn("bwrap_untested", seen+" is newer than the versions that were tested (0.8 to 0.13)", "")
	}
	return ok(seen)
}

// noBubblewrap words why none is used, with what is to be done here.
func (h *Host) noBubblewrap(err error) Result {
	r, isRefusal := errors.AsType[*policy.Refusal](err)
	switch {
	case isRefusal && r.Code == "bwrap_untrusted":
		return h.untrusted(r)
	case isRefusal && r.Code == "bwrap_broken":
		return refused(err, r.Code, "")
	case isRefusal && r.Code == "bwrap_missing" && len(h.Path) == 0:
		return fail("bwrap_missing", "PATH is unset or empty, so no program is found", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if dir := h.find("bwrap"); isRefusal && r.Code == "bwrap_missing" && dir != "" {
		return fail("bwrap_missing", r.Why+", but there is one in "+dir, `export PATH="$PATH:`+dir+`"`)
	}
	return refused(err, "bwrap_missing", h.distro.install("bubblewrap"))
}

// untrusted says what is to be changed about the first one on PATH. Whose it
// is decides nothing here: the refusal has said what is wrong.
func (h *Host) untrusted(r *policy.Refusal) Result {
	for _, dir := range h.Path {
		file := path.Join(dir, "bwrap")
		info, err := fs.Stat(h.Root, strings.TrimPrefix(file, "/"))
		switch {
		case err != nil:
			continue
		case info.Mode()&fs.ModeSetuid != 0:
			return fail("bwrap_setuid", r.Why, "sudo chmod u-s "+quote(file))
		}
		if open := h.writable(file); open != "" {
			return fail(r.Code, r.Why, "sudo chmod go-w "+quote(open))
		}
	}
	return refused(r, r.Code, "")
}

// writable is what others may write on the way to a file, or "".
func (h *Host) writable(file string) string {
	for ; file != "/" && file != "."; file = path.Dir(file) {
		info, err := fs.Stat(h.Root, strings.TrimPrefix(file, "/"))
		if err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return file
		}
	}
	return ""
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
