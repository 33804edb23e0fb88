package bwrap

import (
	"slices"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// hostReadOnly are the write grants on a file system or a mount that is
// read-only on the host: there the boundary takes nothing away.
func hostReadOnly(checks []wire.Check) []string {
	var list []string
	for _, c := range checks {
		var st unix.Statfs_t
		if c.Kind == wire.CheckBind && !c.ReadOnly && unix.Statfs(c.Path, &st) == nil && st.Flags&unix.ST_RDONLY != 0 {
			list = append(list, c.Path)
		}
	}
	return list
}

// withHostDevices says of each check of something fresh which device the
// host's own object lies on, so that a tmpfs of the host can't pass for a cover
// or a private directory.
func withHostDevices(checks []wire.Check) []wire.Check {
	list := slices.Clone(checks)
	for i := range list {
		var st unix.Stat_t
		if list[i].Kind != wire.CheckBind && list[i].Kind != wire.CheckAbsent && unix.Lstat(list[i].Path, &st) == nil {
			list[i].Dev = st.Dev
		}
	}
	return list
}
