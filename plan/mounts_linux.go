package plan

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountTable reads a mountinfo file, proc_pid_mountinfo(5), into one line for
// each mount with what tells two tables apart: where, the device and the path
// on it, the kind of file system, and the mount's own flags. Ids and peer
// groups differ from run to run and are left out, and so are the options of
// the file system, which others may change at any time.
//
// The order is that of the places, and for mounts on one place that in which
// they were made: the last one shows.
func MountTable(r io.Reader) ([]string, error) {
	infos, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read a mount table: %w", err)
	}
	sort.SliceStable(infos, func(i, j int) bool { return infos[i].Mountpoint < infos[j].Mountpoint })
	lines := make([]string, 0, len(infos))
	for _, m := range infos {
		lines = append(lines, fmt.Sprintf("%q %d:%d %q %s %s", m.Mountpoint, m.Major, m.Minor, m.Root, m.FSType, flagsOf(m.Options)))
	}
	return lines, nil
}

// flagsOf sorts the flags of a mount, so that their order says nothing.
func flagsOf(options string) string {
	list := strings.Split(options, ",")
	sort.Strings(list)
	return strings.Join(list, ",")
}
