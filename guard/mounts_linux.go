package guard

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// hostMounts is the mount table of this process.
func hostMounts() ([]mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	defer f.Close()
	return parseMounts(f)
}

// parseMounts reads proc_pid_mountinfo(5).
func parseMounts(r io.Reader) ([]mount, error) {
	list, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	out := make([]mount, 0, len(list))
	for _, m := range list {
		if !isClean(m.Mountpoint) {
			return nil, fmt.Errorf("cannot read the mount table: the mount point %q is no clean path", m.Mountpoint)
		}
		n := mount{
			id: m.ID, parent: m.Parent, dev: unix.Mkdev(uint32(m.Major), uint32(m.Minor)),
			root: m.Root, point: m.Mountpoint, kind: m.FSType,
			readOnly: slices.Contains(strings.Split(m.Options, ","), "ro"),
		}
		if n.kind == "overlay" {
			n.layers = overlayLayers(m.VFSOptions)
		}
		out = append(out, n)
	}
	return out, nil
}
