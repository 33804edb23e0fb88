package bwrap

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
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

// takeTried takes the stub's word that the claims of the plan hold, after
// comparing that it has tried what it was to try.
func (s *launcher) takeTried(body []byte) (wire.Canaries, error) {
	c, err := wire.DecodeTried(body)
	if err != nil {
		return c, s.stubError("the stub's account of what it tried is wrong", err)
	}
	paths := c.Denied + c.ReadOnly + c.Writable + c.Left
	if paths != len(s.setup.Checks) || c.Calls != len(s.setup.Calls) || c.Hosts != 1 {
		return c, s.stubError("the stub hasn't tried what it was to try", nil)
	}
	return c, nil
}

// noteTried puts it on record.
func (s *launcher) noteTried(c wire.Canaries) error {
	if s.o.Record == nil {
		return nil
	}
	return s.o.Record.Add(plan.Step{
		Time: time.Now(), Action: plan.ActionHeld, Kind: plan.KindCanaries, Detail: plan.Tried{
			Denied: c.Denied, ReadOnly: c.ReadOnly, Writable: c.Writable, Calls: c.Calls, Hosts: c.Hosts, Left: c.Left, Micros: c.Micros,
		}.String(),
	})
}
