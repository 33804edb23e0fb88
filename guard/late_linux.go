package guard

import "io"

// ReadMounts reads a process's mount table, proc_pid_mountinfo(5).
func ReadMounts(r io.Reader) ([]MountPoint, error) {
	list, err := parseMounts(r)
	if err != nil {
		return nil, err
	}
	out := make([]MountPoint, 0, len(list))
	for _, m := range list {
		out = append(out, MountPoint{ID: m.id, Parent: m.parent, Path: m.point, Kind: m.kind, ReadOnly: m.readOnly, mount: m})
	}
	return out, nil
}
