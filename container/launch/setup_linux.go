package launch

import (
	"golang.org/x/sys/unix"

	"pinfold/policy"
	"pinfold/stub/wire"
)

// rlimits are the limits that the stub sets just before the command.
func rlimits(l policy.Limits) []wire.Rlimit {
	var out []wire.Rlimit
	if l.Files > 0 {
		out = append(out, wire.Rlimit{Resource: unix.RLIMIT_NOFILE, Soft: uint64(l.Files), Hard: uint64(l.Files)})
	}
	if l.FileSize > 0 {
		out = append(out, wire.Rlimit{Resource: unix.RLIMIT_FSIZE, Soft: uint64(l.FileSize), Hard: uint64(l.FileSize)})
	}
	return append(out, wire.Rlimit{Resource: unix.RLIMIT_CORE})
}

// hostReadOnly are the write grants that can't be written on the host either.
func hostReadOnly(checks []wire.Check) []string {
	var out []string
	for _, c := range checks {
		var fs unix.Statfs_t
		if c.Kind == wire.CheckBind && !c.ReadOnly && unix.Statfs(c.Path, &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
			out = append(out, c.Path)
		}
	}
	return out
}
