package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hostFS is the machine's own file system. One that newHostFS made keeps the
// directories that it came by open, until it is closed: what was looked at
// once stays the same directory for the whole launch, what wasn't there stays
// away, and the many paths in one home cost one call each at most. The zero
// value keeps nothing.
type hostFS struct {
	kept   map[string]*place // by canonical path
	absent map[string]bool   // likewise
}

// newHostFS is the file system that a launch is checked against.
func newHostFS() fsys { return &hostFS{kept: map[string]*place{}, absent: map[string]bool{}} }

// maxKeptDirs bounds the descriptors; RLIMIT_NOFILE is 1024 in many places.
const maxKeptDirs = 256

// maxAbsent bounds the names: a workspace may have any number of repositories.
const maxAbsent = 4096

func (h *hostFS) close() {
	for _, p := range h.kept {
		_ = unix.Close(p.fd) // O_PATH descriptors
	}
	h.kept, h.absent = nil, nil
}

// missed takes note of a name that doesn't exist, while there is room.
func (h *hostFS) missed(path string) {
	if h.absent != nil && len(h.absent) < maxAbsent {
		h.absent[path] = true
	}
}

// lookup walks path one name at a time through O_PATH descriptors, so that
// nobody can swap a name that was already looked at.
func (h *hostFS) lookup(path string) (object, error) {
	r := &resolver{fs: h}
	defer r.close()
	o, err := r.run(path)
	if err != nil {
		return object{}, fmt.Errorf("cannot resolve %q: %w", path, err)
	}
	return o, nil
}

func (*hostFS) names(dir string) ([]string, error) {
	f, err := openStraight(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list %q: %w", dir, err)
	}
	return names, nil
}

func (*hostFS) read(path string, limit int64) ([]byte, error) {
	// O_NONBLOCK: a FIFO in the file's place must not hang the launch.
	f, err := openStraight(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
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

func (*hostFS) hold(path string, id FileID) (io.Closer, error) {
	f, err := openStraight(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot look at %q: %w", path, err)
	}
	if idOf(&st) != id {
		f.Close()
		return nil, fmt.Errorf("cannot hold %q: something else stands there now", path)
	}
	return f, nil
}

// openStraight opens a canonical path and fails if a link is in it by now.
func openStraight(path string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("cannot open %q: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openat2(dir int, path string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(dir, path, how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

func idOf(st *unix.Stat_t) FileID {
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino} //nolint:unconvert // Dev is 32 bits wide on some architectures
}

func kindOf(st *unix.Stat_t) Kind {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFREG:
		return File
	}
	return Other
}

// place is something that a path led to, held open.
type place struct {
	path string // canonical
	fd   int
	st   unix.Stat_t
	acl  bool
	// folds: names in it differ by more than their case.
	folds tristate
	kept  bool // by the file system; the resolver doesn't close it
}

// resolver is one walk. The stack holds everything on the canonical path so
// far, the root first, so that ".." needs no lookup.
type resolver struct {
	fs    *hostFS
	stack []*place
	todo  []string // names still to look up, the next one last
	out   object
}

func (r *resolver) close() {
	for len(r.stack) > 0 {
		r.drop()
	}
}

func (r *resolver) top() *place { return r.stack[len(r.stack)-1] }

func (r *resolver) drop() {
	p := r.top()
	r.stack = r.stack[:len(r.stack)-1]
	if !p.kept {
		_ = unix.Close(p.fd) // an O_PATH descriptor
	}
}

func (r *resolver) push(path string) {
	for rest := path; rest != ""; {
		i := strings.LastIndexByte(rest, '/')
		if name := rest[i+1:]; name != "" && name != "." {
			r.todo = append(r.todo, name)
		}
		rest = rest[:max(i, 0)]
	}
}

// enterRoot puts the root on the empty stack.
func (r *resolver) enterRoot() error {
	if p := r.fs.kept["/"]; p != nil {
		r.stack = append(r.stack, p)
		return nil
	}
	fd, err := openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC})
	if err != nil {
		return fmt.Errorf("cannot open the root directory: %w", err)
	}
	p := &place{path: "/", fd: fd}
	r.stack = append(r.stack, p)
	if err := unix.Fstat(fd, &p.st); err != nil {
		return fmt.Errorf("cannot look at the root directory: %w", err)
	}
	r.fs.keep(p)
	return nil
}

// keep takes a directory over, while there is room.
func (h *hostFS) keep(p *place) {
	if h.kept != nil && len(h.kept) < maxKeptDirs {
		p.kept = true
		h.kept[p.path] = p
	}
}

func (r *resolver) run(path string) (object, error) {
	r.push(path)
	if err := r.enterRoot(); err != nil {
		return object{}, err
	}
	for len(r.todo) > 0 {
		name := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		if done, err := r.enter(name); done || err != nil {
			return r.out, err
		}
	}
	return r.found()
}

// enter looks one name up; done means that the walk ends there.
func (r *resolver) enter(name string) (done bool, err error) {
	dir := r.top()
	if dir.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return true, r.stop(name, endBlunt)
	}
	if name == ".." {
		if len(r.stack) > 1 { // ".." of the root is the root
			r.drop()
		}
		return false, nil
	}
	path := join(dir.path, name)
	if p := r.fs.kept[path]; p != nil {
		r.note(name, &p.st)
		r.stack = append(r.stack, p)
		return false, nil
	}
	if r.fs.absent[path] {
		return true, r.stop(name, endAbsent)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(dir.fd, name, &how)
	switch {
	case errors.Is(err, unix.ENOENT):
		r.fs.missed(path)
		return true, r.stop(name, endAbsent)
	case errors.Is(err, unix.EACCES):
		return true, r.stop(name, endUnreachable)
	case err != nil:
		return false, fmt.Errorf("%q: %w", path, err)
	}
	return r.arrive(name, &place{path: path, fd: fd})
}

// arrive takes over what name stands for in the topmost directory.
func (r *resolver) arrive(name string, p *place) (done bool, err error) {
	if err := unix.Fstat(p.fd, &p.st); err != nil {
		_ = unix.Close(p.fd)
		return false, fmt.Errorf("%q: %w", p.path, err)
	}
	dir := r.top()
	if dir.learnFolding(name, &p.st); dir.folds == yes {
		if name, err = spelled(dir, name, &p.st); err != nil {
			_ = unix.Close(p.fd)
			return false, err
		}
		p.path = join(dir.path, name)
	}
	r.note(name, &p.st)
	switch p.st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		defer unix.Close(p.fd)
		return r.follow(name, p)
	case unix.S_IFDIR:
		p.acl = p.st.Mode&modeGroupWrite != 0 && hasACL(p.fd)
		r.fs.keep(p)
	}
	r.stack = append(r.stack, p)
	return false, nil
}

// note records in which directory a name was found.
func (r *resolver) note(name string, st *unix.Stat_t) {
	dir := r.top()
	r.out.steps = append(r.out.steps, step{
		dir: dir.path, uid: dir.st.Uid, gid: dir.st.Gid, mode: dir.st.Mode & 0o7777, acl: dir.acl, name: name, owner: st.Uid,
	})
}

// follow replaces a link by what stands in it.
func (r *resolver) follow(name string, p *place) (done bool, err error) {
	if len(r.out.links) >= maxLinks {
		r.todo = nil
		return true, r.stop(name, endLoop)
	}
	if isMagic(r.top().fd, p.fd) {
		return false, fmt.Errorf("%q: %w", p.path, errMagic)
	}
	target, err := readLink(p.fd)
	if err != nil {
		return false, fmt.Errorf("%q: %w", p.path, err)
	}
	r.out.links = append(r.out.links, link{path: p.path, target: target, uid: p.st.Uid})
	if strings.HasPrefix(target, "/") {
		for len(r.stack) > 1 {
			r.drop()
		}
	}
	r.push(target)
	return false, nil
}

// stop ends the walk at a name that can't be entered. What follows can't be
// looked up; ".." in it would name something by its spelling alone.
func (r *resolver) stop(name string, end ending) error {
	r.out.end = end
	r.out.exists = r.top().path
	r.out.path = join(r.out.exists, name)
	for i := len(r.todo) - 1; i >= 0; i-- {
		r.out.path = join(r.out.path, r.todo[i])
	}
	if name == ".." || slices.Contains(r.todo, "..") {
		return fmt.Errorf("%q: the path goes up again from where no directory is", r.out.path)
	}
	return nil
}

// found ends the walk at something that exists and keeps its descriptor.
func (r *resolver) found() (object, error) {
	top := r.top()
	fd, err := unix.FcntlInt(uintptr(top.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return object{}, fmt.Errorf("cannot keep a descriptor: %w", err)
	}
	o := r.out
	o.path = top.path
	o.exists = o.path
	o.kind = kindOf(&top.st)
	o.socket = top.st.Mode&unix.S_IFMT == unix.S_IFSOCK
	o.id = idOf(&top.st)
	o.uid, o.gid = top.st.Uid, top.st.Gid
	o.mode = top.st.Mode & 0o7777
	o.nlink = uint64(top.st.Nlink) //nolint:unconvert // 32 bits wide on some architectures
	o.handle = os.NewFile(uintptr(fd), o.path)
	return o, nil
}
