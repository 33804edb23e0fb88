package notify

import "bytes"

// Bound is a unix socket with a file that somebody listens on.
type Bound struct {
	// Name is how it was bound: perhaps by a relative path, and perhaps
	// somebody has moved it since.
	Name string
	// Dev is the file system's device, which isn't what stat(2) says where one
	// file system has several (btrfs, overlay).
	Dev uint64
	// Ino is the low half of the inode's number.
	Ino uint32
}

// Listening are those of this process's network namespace.
func Listening() ([]Bound, error) {
	d, err := hostDiag()
	if err != nil {
		return nil, err
	}
	defer d.close()
	var out []Bound
	err = d.dump(diagListening, diagShowName|diagShowVFS, func(body []byte) {
		if i, ok := boundAt(body); ok {
			name, _ := attribute(body, diagAttrName)
			name, _, _ = bytes.Cut(name, []byte{0})
			out = append(out, Bound{string(name), i.dev, i.ino})
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
