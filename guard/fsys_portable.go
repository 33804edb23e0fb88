//go:build !linux

package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// hostFS is the machine's own file system, looked at by name: these systems
// have no openat2. What holds inside is decided by canonical paths there
// (Seatbelt), so the descriptors kept only keep the inode numbers.
type hostFS struct{}

// newHostFS is the file system that launches are checked against.
func newHostFS() fsys { return hostFS{} }

func (hostFS) close() {}

// barred: no mount point is made here, so that none need be done without.
func (hostFS) barred(string) bool { return false }

func (hostFS) names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", dir, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list %q: %w", dir, err)
	}
	return names, nil
}

func (hostFS) linksIn(dir string) (links, dirs []string, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open %q: %w", dir, err)
	}
	defer f.Close()
	return linksOf(f)
}

func (hostFS) read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot look at %q: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %q: not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("cannot read %q: %w", path, err)
	}
	return b, nil
}

type nothing struct{}

func (nothing) Close() error { return nil }

func (hostFS) hold(path string, id FileID) (io.Closer, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot look at %q: %w", path, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || idOfStat(st) != id {
		return nil, fmt.Errorf("cannot hold %q: something else stands there now", path)
	}
	return nothing{}, nil
}

func idOfStat(st *syscall.Stat_t) FileID {
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

func (hostFS) lookup(path string) (object, error) {
	r := &resolver{}
	r.push(path)
	o, err := r.run()
	if err != nil {
		return object{}, fmt.Errorf("cannot resolve %q: %w", path, err)
	}
	return o, nil
}

// resolver walks a path one name at a time.
type resolver struct {
	names []string
	todo  []string
	out   object
}

func (r *resolver) canonical() string { return "/" + strings.Join(r.names, "/") }

func (r *resolver) push(path string) {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] != "" && parts[i] != "." {
			r.todo = append(r.todo, parts[i])
		}
	}
}

func (r *resolver) run() (object, error) {
	for len(r.todo) > 0 {
		name := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		if name == ".." {
			r.names = r.names[:max(len(r.names)-1, 0)]
			continue
		}
		if done, err := r.enter(name); done || err != nil {
			return r.out, err
		}
	}
	return r.found()
}

func (r *resolver) enter(name string) (done bool, err error) {
	dir, err := statOf(r.canonical())
	if err != nil {
		return false, err
	}
	path := join(r.canonical(), name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return true, r.stop(name, endBlunt)
	case errors.Is(err, fs.ErrNotExist):
		return true, r.stop(name, endAbsent)
	case errors.Is(err, fs.ErrPermission):
		return true, r.stop(name, endUnreachable)
	case err != nil:
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, fmt.Errorf("%q: no stat structure", path)
	}
	if name, err = spelled(r.canonical(), name, st); err != nil {
		return false, err
	}
	r.out.steps = append(r.out.steps, step{
		dir: r.canonical(), uid: dir.Uid, gid: dir.Gid,
		mode: uint32(dir.Mode) & 0o7777, name: name, owner: st.Uid,
	})
	if info.Mode()&fs.ModeSymlink == 0 {
		r.names = withoutDataVolume(append(r.names, name), st)
		return false, nil
	}
	return r.follow(name, st.Uid)
}

func (r *resolver) follow(name string, uid uint32) (done bool, err error) {
	path := join(r.canonical(), name)
	if len(r.out.links) >= maxLinks {
		r.todo = nil
		return true, r.stop(name, endLoop)
	}
	target, err := os.Readlink(path)
	if err != nil {
		return false, err
	}
	r.out.links = append(r.out.links, link{path: path, target: target, uid: uid})
	if strings.HasPrefix(target, "/") {
		r.names = nil
	}
	r.push(target)
	return false, nil
}

func (r *resolver) stop(name string, end ending) error {
	r.out.end = end
	r.out.exists = r.canonical()
	r.out.path = join(r.out.exists, name)
	for i := len(r.todo) - 1; i >= 0; i-- {
		r.out.path = join(r.out.path, r.todo[i])
	}
	if name == ".." || slices.Contains(r.todo, "..") {
		return fmt.Errorf("%q: the path goes up again from where no directory is", r.out.path)
	}
	return nil
}

func (r *resolver) found() (object, error) {
	st, err := statOf(r.canonical())
	if err != nil {
		return object{}, err
	}
	o := r.out
	o.path = r.canonical()
	o.exists = o.path
	o.kind = kindOfMode(uint32(st.Mode))
	o.socket = uint32(st.Mode)&syscall.S_IFMT == syscall.S_IFSOCK
	o.id = idOfStat(st)
	o.uid, o.gid = st.Uid, st.Gid
	o.mode = uint32(st.Mode) & 0o7777
	o.nlink = uint64(st.Nlink)
	return o, nil
}

func kindOfMode(mode uint32) Kind {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return Dir
	case syscall.S_IFREG:
		return File
	}
	return Other
}

func statOf(path string) (*syscall.Stat_t, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("%q: no stat structure", path)
	}
	return st, nil
}
