package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"pinfold/policy"
)

// Disk is what a directory's file system says.
type Disk struct {
	Owner    int   // of the directory
	Writable bool  // by the caller: access(2)
	ReadOnly bool  // mounted so
	Free     int64 // bytes for the caller; 0 too where no file can be made
}

// lowSpace is where room begins to run short: a record with its events takes
// some kilobytes, a throw-away workspace what the command writes.
const lowSpace = 64 << 20

// checkState: records and trust live here, so nobody else may write it.
func checkState(_ context.Context, h *Host) Result {
	if h.State == "" {
		return unknown("state_unknown", "no state directory was named")
	}
	if h.Inside() {
		return unknown("state_unknown", "not asked: it is kept from what runs inside")
	}
	name := strings.TrimPrefix(h.State, "/")
	info, err := fs.Stat(h.Root, name)
	switch {
	case isNotExist(err):
		return h.stateParent(path.Dir(name))
	case err != nil:
		return unknown("state_unknown", err.Error())
	case !info.IsDir():
		return fail("state_not_directory", h.State+" is no directory", "mv "+quote(h.State)+" "+quote(h.State+".old"))
	}
	return h.stateDisk(h.State, func(d Disk) Result {
		switch {
		case d.Owner != h.UID:
			return fail("state_foreign", fmt.Sprintf("%s belongs to user %d, who could have planted what is in it", h.State, d.Owner),
				"sudo mv "+quote(h.State)+" "+quote(h.State+".foreign"))
		case info.Mode().Perm()&0o022 != 0:
			return fail("state_shared", fmt.Sprintf("%s can be written by others (mode %04o)", h.State, info.Mode().Perm()),
				"chmod 700 "+quote(h.State))
		}
		return ok(h.State)
	})
}

// stateParent: a directory that isn't there yet will be made.
func (h *Host) stateParent(name string) Result {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		info, err := fs.Stat(h.Root, name)
		if isNotExist(err) {
			continue
		}
		if err != nil || !info.IsDir() {
			return fail("state_not_makeable", "/"+name+" is in the way of "+h.State, otherState)
		}
		break
	}
	return h.stateDisk("/"+strings.TrimPrefix(name, "."), func(Disk) Result { return ok(h.State + " will be made") })
}

// otherState needs a directory that only the caller can choose.
const otherState = "# name another directory: export PINFOLD_STATE=DIR"

// stateDisk asks about owner and mode first, and then whether a file can be
// written there.
func (h *Host) stateDisk(dir string, owned func(Disk) Result) Result {
	if h.Probe == nil {
		return owned(Disk{Owner: h.UID})
	}
	d, err := h.Probe.Disk(dir)
	if err != nil {
		return unknown("state_unknown", err.Error())
	}
	r := owned(d)
	switch {
	case r.Status == Fail:
		return r
	case d.ReadOnly:
		return fail("state_read_only", dir+" is on a file system that is mounted read-only", otherState)
	case !d.Writable:
		return fail("state_unwritable", dir+" can't be written by you", otherState)
	case d.Free == 0:
		return fail("state_full", "the file system of "+dir+" is full", "# make room there, or name a directory on another one: export PINFOLD_STATE=DIR")
	case d.Free < lowSpace:
		return warn("state_low", fmt.Sprintf("%s, with %d MiB left", r.Seen, d.Free>>20), "# make room on the file system of "+dir)
	}
	return r
}

// quote makes a path one word for a shell.
func quote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return s
	}
	return policy.ShellQuote(s)
}
