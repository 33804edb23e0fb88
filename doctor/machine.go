package doctor

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"pinfold/policy"
)

// refused turns a refusal of the real code into a row, with its own code, so
// that doctor and wrap say the same; its own advice where there is no fix.
func refused(err error, code, fix string) Result {
	if r, isRefusal := errors.AsType[*policy.Refusal](err); isRefusal {
		if fix == "" && r.Fix != "" && !strings.Contains(r.Fix, "pinfold doctor") {
			fix = words(oneLine(r.Fix))
		}
		return fail(r.Code, r.Why, fix)
	}
	if errors.Is(err, ErrNotThere) {
		return fail(code, err.Error(), fix)
	}
	return unknown(code, err.Error())
}

// checkPolicies lists what discovery found.
func checkPolicies(_ context.Context, h *Host) Result {
	var seen, untrusted []string
	for _, p := range h.Policies {
		switch {
		case p.Err != nil:
			return refused(p.Err, "policy_unreadable", "")
		case p.Used:
			seen = append(seen, p.Path+" (used)")
		case !p.Trusted:
			untrusted = append(untrusted, p.Path)
		default:
			seen = append(seen, p.Path)
		}
	}
	if len(untrusted) > 0 {
		return warn("policy_untrusted", "not used, since nobody trusted it: "+strings.Join(untrusted, ", "), "pinfold trust "+quote(untrusted[0]))
	}
	if len(seen) == 0 {
		return ok("none; the built-in policy writes the workspace and has no network")
	}
	return ok(strings.Join(seen, ", "))
}

// checkShadows: two programs of one name on PATH surprise people.
func checkShadows(_ context.Context, h *Host) Result {
	var twice []string
	for _, name := range []string{"pinfold", "bwrap"} {
		var found []string
		for _, dir := range h.Path {
			p := path.Join(dir, name)
			if info, err := fs.Stat(h.Root, strings.TrimPrefix(p, "/")); err == nil && info.Mode()&0o111 != 0 {
				found = append(found, p)
			}
		}
		if len(found) > 1 && !sameTree(found) {
			twice = append(twice, strings.Join(found, " before "))
		}
	}
	if len(twice) > 0 {
		return warn("shadowed", strings.Join(twice, "; "), "")
	}
	return ok("nothing on PATH hides another")
}

// sameTree: /bin and /usr/bin are one directory on merged systems.
func sameTree(paths []string) bool {
	for _, p := range paths {
		if strings.TrimPrefix(p, "/usr") != strings.TrimPrefix(paths[0], "/usr") {
			return false
		}
	}
	return true
}
