package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"pinfold/lease"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// makePoints makes on the host what is to be covered in the container and
// isn't there. The engine would as well, but as root, and then nobody could
// tell later whose it is.
func (s *launcher) makePoints(context.Context) (err error) {
	l := s.o.Launch
	s.leases, err = lease.Take(lease.Request{State: s.o.State, Missing: l.Missing, Covered: l.Covered, Record: s.o.Record, Outlives: true})
	if err != nil {
		return uncoverable(l.Missing, err)
	}
	if err := writeLeased(s.o.Dirs, l.Covered); err != nil {
		return err
	}
	for _, m := range l.Spec.Mounts {
		if !slices.ContainsFunc(l.Missing, func(p lease.Point) bool { return p.Path == m.Source }) {
			continue // no directory that was made, and is pinned
		}
		var st unix.Stat_t
		if err := unix.Lstat(m.Source, &st); err != nil {
			return fmt.Errorf("cannot look at %q: %w", m.Source, err)
		}
		s.setup.Checks = append(s.setup.Checks, wire.Check{Kind: wire.CheckBind, Path: m.Target, Dev: st.Dev, Ino: st.Ino})
	}
	return nil
}

// uncoverable is a mount point that can't be made.
func uncoverable(missing []lease.Point, err error) error {
	if _, ok := errors.AsType[*policy.Refusal](err); ok || len(missing) == 0 {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cannot_cover", Subject: missing[0].Path, Err: err,
		Why: fmt.Sprintf("cannot keep what isn't there from being made inside: %v", err),
		Fix: "make it, or leave the rule out",
	}
}
