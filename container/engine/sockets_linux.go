package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/notify"
)

// Listening are the canonical paths at which unix sockets stand that somebody
// of this network namespace listens on. The kernel tells the name that a socket
// was bound by, and its inode. One whose file isn't there by that name any
// more, or has others (rename(2), link(2), a relative path), is searched for in
// what r shows, if search says so.
func Listening(ctx context.Context, r *container.Reach, search bool) ([]string, error) {
	bound, err := notify.Listening()
	if err != nil {
		return nil, fmt.Errorf("%w (it takes the kernel's unix_diag; as root: modprobe unix_diag)", err)
	}
	if len(bound) == 0 {
		return nil, nil
	}
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	m := mounts(list)
	shown := m.shownBy(r)
	var out []string
	var stray []notify.Bound
	for _, b := range bound {
		paths, all := m.placesOf(b)
		out = append(out, paths...)
		if !all && shown[b.Dev] {
			stray = append(stray, b)
		}
	}
	if search && len(stray) > 0 {
		found, err := searcher{m, stray, map[string]bool{}}.search(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// mounts is this process's mount table.
type mounts []*mountinfo.Info

func device(m *mountinfo.Info) uint64 { return unix.Mkdev(uint32(m.Major), uint32(m.Minor)) }

// holds is the mount that a path lies in: the topmost of the longest.
func (m mounts) holds(p string) *mountinfo.Info {
	var at *mountinfo.Info
	for _, i := range m {
		if within(p, i.Mountpoint) && (at == nil || len(i.Mountpoint) >= len(at.Mountpoint)) {
			at = i
		}
	}
	return at
}

func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// shownBy are the devices of what is shown.
func (m mounts) shownBy(r *container.Reach) map[uint64]bool {
	out := map[uint64]bool{}
	for _, p := range r.Places {
		if !p.Shown {
			continue
		}
		if at := m.holds(p.Path); at != nil {
			out[device(at)] = true
		}
		for _, i := range m {
			if within(i.Mountpoint, p.Path) {
				out[device(i)] = true
			}
		}
	}
	return out
}

// is reports whether a file is a socket's. A device that no mount has is one of
// several that a file system gives its files.
func (m mounts) is(st *unix.Stat_t, b notify.Bound) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFSOCK && uint32(st.Ino) == b.Ino &&
		(st.Dev == b.Dev || !slices.ContainsFunc(m, func(i *mountinfo.Info) bool { return device(i) == st.Dev }))
}

// placesOf is where a socket stands by the name it was bound by, and by the
// same file system's other mounts. A name that was removed is nobody's to
// connect to, and one that is another socket's by now counts: better one too
// many. all: it stands nowhere else.
func (m mounts) placesOf(b notify.Bound) (paths []string, all bool) {
	if !filepath.IsAbs(b.Name) {
		return nil, false
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(b.Name))
	if err != nil {
		return nil, false
	}
	path := filepath.Join(dir, filepath.Base(b.Name))
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, false
	}
	if !m.is(&st, b) {
		return []string{path}, false
	}
	return append(m.aliases(path, b), path), st.Nlink == 1
}

// aliases is where else a file shows, by mounts of the same file system.
func (m mounts) aliases(path string, b notify.Bound) (out []string) {
	at := m.holds(path)
	if at == nil {
		return nil
	}
	inner := filepath.Join(at.Root, strings.TrimPrefix(path, at.Mountpoint))
	for _, i := range m {
		if i == at || device(i) != device(at) || !within(inner, i.Root) {
			continue
		}
		alias := filepath.Join(i.Mountpoint, strings.TrimPrefix(inner, i.Root))
		var st unix.Stat_t
		if alias != path && unix.Lstat(alias, &st) == nil && m.is(&st, b) {
			out = append(out, alias)
		}
	}
	return out
}

// searcher looks for sockets by their inodes.
type searcher struct {
	mounts
	stray []notify.Bound
	ruled map[string]bool // the places
}

// search looks through all that is shown.
func (s searcher) search(ctx context.Context, r *container.Reach) (out []string, err error) {
	for _, p := range r.Places {
		s.ruled[p.Path] = true
	}
	for _, p := range r.Places {
		if !p.Shown {
			continue
		}
		if s.at(p.Path) {
			out = append(out, p.Path)
		}
		found, err := s.beneath(ctx, p.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (s searcher) at(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && slices.ContainsFunc(s.stray, func(b notify.Bound) bool { return s.is(&st, b) })
}

// beneath looks through a directory, less the places of other rules. What can't
// be opened can't be looked through: it is gone, or this user's to enter at most.
func (s searcher) beneath(ctx context.Context, top string) (out []string, err error) {
	for left := []string{top}; len(left) > 0; {
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		// The command may put a link or a FIFO there meanwhile.
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM { //nolint:errorlint // x/sys returns bare errnos
			return nil, fmt.Errorf("cannot open %q: %w", dir, err)
		}
		if err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), dir)
		dirs, found := s.entries(ctx, f)
		f.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		left, out = append(left, dirs...), append(out, found...)
	}
	return out, nil
}

// entries reads one directory in pieces: nobody bounds what the command makes.
func (s searcher) entries(ctx context.Context, f *os.File) (dirs, found []string) {
	for ctx.Err() == nil {
		list, err := f.ReadDir(512)
		for _, e := range list {
			path := filepath.Join(f.Name(), e.Name())
			switch {
			case e.IsDir() && !s.ruled[path]:
				dirs = append(dirs, path)
			case e.Type()&os.ModeSocket != 0 && s.at(path):
				found = append(found, path)
			}
		}
		if err != nil { // io.EOF, or it is gone
			break
		}
	}
	return dirs, found
}
