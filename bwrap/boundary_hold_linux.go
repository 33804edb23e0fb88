package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// holder says who inside has hold of an object of the host: by a descriptor,
// a mapping, as a directory to be in, or in a message under way in a socket,
// where nobody can look. "" is nobody.
func (s *stopped) holder(obj object) (string, error) {
	pids := []int{s.init}
	for _, h := range s.list {
		pids = append(pids, h.pid)
	}
	for _, pid := range pids {
		tasks, err := filepath.Glob(procPath(pid, "task/*"))
		if err != nil {
			return "", err
		}
		for _, task := range tasks {
			why, err := obj.heldBy(task)
			if err != nil && !gone(err) && !ended(task) {
				return "", fmt.Errorf("cannot look at process %d: %w", pid, err)
			}
			if why != "" {
				return fmt.Sprintf("process %d %s", pid, why), nil
			}
		}
	}
	return "", nil
}

func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// ended reports whether a task has given up all that it had and waits to be
// reaped. Its entries of /proc are root's then, whoever's it was, since it has
// no memory any more that says otherwise (task_dump_owner(), fs/proc/base.c), so
// that an ordinary user is refused them.
func ended(task string) bool {
	state := taskState(task)
	return state == "Z" || state == "X"
}

// object is what came to be at a path. Who has hold of a file can open it
// otherwise than he has, by /proc/self/fd, so it doesn't matter for what.
type object struct {
	identity
	path string
	dir  bool
	// cover is the mount that lies on it. Who has opened it through that one can't
	// write to it by what he has.
	cover uint64
	// beneath is what lies in a directory, where somebody inside could write;
	// nil where its path has to do.
	beneath map[guard.FileID]bool
}

func (o object) heldBy(task string) (string, error) {
	for _, link := range []struct{ name, why string }{{"cwd", "is in it"}, {"root", "is in it"}, {"exe", "executes it"}} {
		if o.is(task + "/" + link.name) {
			return link.why, nil
		}
	}
	list, err := os.ReadDir(task + "/fd")
	if err != nil {
		return "", err
	}
	for _, e := range list {
		if o.is(task + "/fd/" + e.Name()) {
			return "has it open", nil
		}
		info, err := os.ReadFile(task + "/fdinfo/" + e.Name())
		if err != nil && !gone(err) {
			return "", err
		}
		if underWay(string(info)) {
			return "has sent descriptors that nobody has received yet", nil
		}
	}
	maps, err := os.ReadFile(task + "/maps")
	if err != nil {
		return "", err
	}
	if o.mapped(string(maps)) {
		return "has it mapped", nil
	}
	return "", nil
}

// is reports whether a link of /proc leads to the object, or beneath it.
func (o object) is(link string) bool {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &st) == nil {
		if st.Mask&unix.STATX_MNT_ID != 0 && o.cover != 0 && st.Mnt_id == o.cover {
			return false
		}
		dev := unix.Mkdev(st.Dev_major, st.Dev_minor)
		if dev == o.dev && st.Ino == o.ino || o.beneath[guard.FileID{Dev: dev, Ino: st.Ino}] {
			return true
		}
	}
	to, err := os.Readlink(link)
	return err == nil && o.holds(to)
}

// holds reports whether a path of /proc's is the directory's, or leads beneath
// it.
func (o object) holds(p string) bool { return o.dir && (p == o.path || isBelow(p, o.path)) }

// underWay reads what fdinfo says of a socket (scm_fds, Linux 5.10).
func underWay(info string) bool {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "scm_fds:"); ok {
			return strings.TrimSpace(v) != "0"
		}
	}
	return false
}

// mapped looks for the object, and what is in it, in /proc/PID/maps. A file
// system with devices of its own making (btrfs, overlayfs) shows another one
// there than stat(2) does; the path tells of a directory all the same, and a
// file is asked for with a lease.
func (o object) mapped(maps string) bool {
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		var major, minor uint32
		var ino uint64
		if _, err := fmt.Sscanf(f[3]+" "+f[4], "%x:%x %d", &major, &minor, &ino); err != nil || ino == 0 {
			continue
		}
		dev := unix.Mkdev(major, minor)
		p := mappedPath(line)
		if dev == o.dev && ino == o.ino || o.beneath[guard.FileID{Dev: dev, Ino: ino}] || o.holds(p) || o.holds(strings.ReplaceAll(p, `\012`, "\n")) {
			return true
		}
	}
	return false
}

// mappedPath is all that follows the fifth field of a line of /proc/PID/maps:
// a path may hold spaces, and has \012 for a line's end, proc_pid_maps(5).
func mappedPath(line string) string {
	rest := strings.TrimSuffix(line, "\n")
	for range 5 {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	return strings.TrimLeft(rest, " ")
}
