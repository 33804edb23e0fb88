package cgroup

import (
	"fmt"
	"path"

	"pinfold/policy"
)

// Check refuses a path ([Options.Path]) that names no cgroup, in whatever
// hierarchy. It is for a launch that may need none: the caller has named one,
// and must not find out with the first limit that it isn't there.
func Check(o Options) error {
	k := o.Kernel
	if k == nil {
		k = system{}
	}
	all, err := hierarchies(k)
	if err != nil {
		return noCgroup(o.Path, err.Error())
	}
	for _, h := range all {
		if _, err := k.ReadFile(path.Join(h.named(all, o.Path), "cgroup.procs")); err == nil {
			return nil
		}
	}
	return noCgroup(o.Path, "no such cgroup can be read")
}

func noCgroup(p, why string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cgroup_missing", Subject: p,
		Why: fmt.Sprintf("cannot use --cgroup %q: %s", p, why),
		Fix: "name a directory beneath /sys/fs/cgroup, or its path in there, such as /ci",
	}
}
