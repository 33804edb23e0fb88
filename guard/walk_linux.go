package guard

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// dirNode is one directory of a walk. It keeps its descriptor until all
// directories beneath it are open.
type dirNode struct {
	up    *dirNode
	name  string
	depth int
	stops *stops
	ino   uint64
	root  FileID // what a root must be; beneath, the device of the root
	fd    int
	refs  atomic.Int32 // those that still have to be opened from it, and itself
}

// path is the canonical path, put together only where somebody asks.
func (d *dirNode) path() string {
	if d.up == nil {
		return d.name
	}
	return join(d.up.path(), d.name)
}

func (d *dirNode) done() {
	if d.refs.Add(-1) == 0 {
		_ = unix.Close(d.fd) // a directory, read only
	}
}

// walker is one walk. Directories wait on one stack, the last found first, so
// that the descriptors held stay about as many as the tree is deep.
type walker struct {
	req     walkRequest
	entries atomic.Int64
	stopped atomic.Bool // set when the walk ends early

	mu    sync.Mutex
	ready *sync.Cond
	stack []*dirNode
	busy  int // workers that may still add to the stack
	over  bool
}

func (*hostFS) walk(ctx context.Context, req walkRequest) (walkResult, error) {
	if len(req.roots) == 0 {
		return walkResult{}, nil
	}
	w := &walker{req: req}
	w.ready = sync.NewCond(&w.mu)
	for _, r := range req.roots {
		w.stack = append(w.stack, &dirNode{name: r.path, stops: r.stops, root: r.id, ino: r.id.Ino})
	}
	stop := context.AfterFunc(ctx, w.end)
	defer stop()
	parts := make([]worker, min(runtime.GOMAXPROCS(0), 8))
	var group errgroup.Group
	for i := range parts {
		parts[i].w, parts[i].buf = w, make([]byte, smallBuffer)
		group.Go(parts[i].run)
	}
	err := group.Wait()
	w.drop()
	if cause := context.Cause(ctx); err == nil && cause != nil {
		err = cause
	}
	out := merge(parts, int(w.entries.Load()))
	out.seed = req.seed
	return out, err
}

func merge(parts []worker, entries int) walkResult {
	out := walkResult{entries: entries}
	for i := range parts {
		r := &parts[i].out
		out.linked = append(out.linked, r.linked...)
		out.gits = append(out.gits, r.gits...)
		out.bares = append(out.bares, r.bares...)
		out.dirs = append(out.dirs, r.dirs...)
		out.blind = append(out.blind, r.blind...)
	}
	return out
}

// end makes every worker come home.
func (w *walker) end() {
	w.stopped.Store(true)
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.ready.Broadcast()
}

// drop lets the descriptors of a walk that ended early go.
func (w *walker) drop() {
	for _, d := range w.stack {
		if d.up != nil {
			d.up.done()
		}
	}
	w.stack = nil
}

// next waits for a directory; nil means that there is none left.
func (w *walker) next() *dirNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.stack) == 0 && w.busy > 0 && !w.over {
		w.ready.Wait()
	}
	if w.over || len(w.stack) == 0 {
		return nil
	}
	d := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	w.busy++
	return d
}

// finished takes what one directory led to.
func (w *walker) finished(found []*dirNode) {
	w.mu.Lock()
	w.stack = append(w.stack, found...)
	w.busy--
	wake := len(found) > 1 || w.busy == 0
	w.mu.Unlock()
	if wake {
		w.ready.Broadcast()
	}
}

// What a worker reads at a time: little until it meets a directory that holds
// much, since most launches have small trees, and memory has a price.
const (
	smallBuffer = 8 << 10
	largeBuffer = 64 << 10
)

// worker reads directories one after the other.
type worker struct {
	w     *walker
	out   walkResult
	found []*dirNode
	buf   []byte
	key   [16 + unix.NAME_MAX]byte
	stat  unix.Statx_t
}

func (k *worker) run() error {
	for {
		d := k.w.next()
		if d == nil {
			return nil
		}
		err := k.directory(d)
		k.w.finished(k.found)
		k.found = k.found[:0]
		if err != nil {
			k.w.end()
			return err
		}
	}
}

// directory reads one directory whole.
func (k *worker) directory(d *dirNode) error {
	open, err := k.open(d)
	if err != nil || !open {
		return err
	}
	defer d.done()
	var looks bare
	for !k.w.stopped.Load() {
		n, err := unix.Getdents(d.fd, k.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOENT) {
			break // removed since it was opened, so that nothing is in it
		}
		if err != nil {
			return fmt.Errorf("cannot list %q: %w", d.path(), err)
		}
		if n == 0 {
			break
		}
		if err := k.block(d, k.buf[:n], &looks); err != nil {
			return err
		}
		if n > smallBuffer/2 && len(k.buf) < largeBuffer {
			k.buf = make([]byte, largeBuffer)
		}
	}
	if looks == isBare {
		k.out.bares = append(k.out.bares, d.path())
	}
	return nil
}

// open opens a directory from the one above it. false means that nobody
// inside can get in either, or that it is gone.
func (k *worker) open(d *dirNode) (bool, error) {
	if d.up == nil {
		return true, k.openRoot(d)
	}
	defer d.up.done()
	if d.depth > maxDepth {
		return false, fmt.Errorf("cannot walk %q: %w", short(d.path()), errDepth)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOATIME
	fd, err := unix.Openat(d.up.fd, d.name, flags, 0)
	if errors.Is(err, unix.EPERM) { // O_NOATIME is for the owner, open(2)
		fd, err = unix.Openat(d.up.fd, d.name, flags&^unix.O_NOATIME, 0)
	}
	switch {
	case err == nil:
		d.fd = fd
		d.refs.Store(1)
		return k.enters(d)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return false, nil // renamed or replaced since it was listed
	case errors.Is(err, unix.EACCES):
		return false, k.unreadable(d)
	}
	return false, fmt.Errorf("cannot open %q: %w", d.path(), err)
}

// enters closes a directory again that lies on a file system which isn't to
// be entered. Its number is what it says itself: an overlay's listings, and those
// of what is mounted on, have others.
func (k *worker) enters(d *dirNode) (bool, error) {
	if !k.w.req.oneFS && k.w.req.seed == (maphash.Seed{}) {
		return true, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		d.done()
		return false, fmt.Errorf("cannot look at %q: %w", d.path(), err)
	}
	d.ino = st.Ino
	k.remember(d.up.ino, d.ino, d.name)
	if d.root.Dev = d.up.root.Dev; k.w.req.oneFS && idOf(&st).Dev != d.root.Dev {
		d.done()
		return false, nil
	}
	return true, nil
}

// openRoot opens a root, which must still be what it was when it was
// resolved.
func (k *worker) openRoot(d *dirNode) error {
	f, err := openStraight(d.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("cannot look at %q: %w", d.name, err)
	}
	if idOf(&st) != d.root {
		return errMoved(d.name)
	}
	d.fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot keep a descriptor: %w", err)
	}
	d.refs.Store(1)
	return nil
}

// unreadable notes a directory that its owner could open up from inside.
func (k *worker) unreadable(d *dirNode) error {
	var st unix.Stat_t
	err := unix.Fstatat(d.up.fd, d.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // gone
	}
	if err != nil {
		return fmt.Errorf("cannot look at %q: %w", d.path(), err)
	}
	k.remember(d.up.ino, st.Ino, d.name)
	if st.Uid == k.w.req.uid {
		k.out.blind = append(k.out.blind, d.path())
	}
	return nil
}

// block takes one buffer of directory entries.
func (k *worker) block(d *dirNode, buf []byte, looks *bare) error {
	seen := 0
	for len(buf) > direntName {
		size := int(buf[direntReclen]) | int(buf[direntReclen+1])<<8
		if size <= direntName || size > len(buf) {
			return fmt.Errorf("cannot list %q: a directory entry of %d bytes", d.path(), size)
		}
		entry := buf[:size]
		buf = buf[size:]
		name := nameOf(entry)
		if string(name) == "." || string(name) == ".." {
			continue
		}
		if len(name) == 0 {
			return fmt.Errorf("cannot list %q: an entry without a name", d.path())
		}
		seen++
		looks.see(name)
		if err := k.entry(d, entry, name); err != nil {
			return err
		}
	}
	if total := k.w.entries.Add(int64(seen)); total > int64(k.w.req.limit) {
		return errEntries
	}
	return nil
}

// entry takes one name. Its bytes are followed by a NUL in the buffer.
func (k *worker) entry(d *dirNode, entry, name []byte) error {
	kind := entry[direntType]
	var below *stops
	if d.stops != nil {
		if below = d.stops.next[string(name)]; below != nil && below.here {
			return nil
		}
	}
	if kind != unix.DT_DIR && kind != unix.DT_LNK {
		isDir, err := k.count(d, name)
		if err != nil {
			return err
		}
		if isDir {
			kind = unix.DT_DIR
		}
	}
	if string(name) == ".git" {
		k.out.gits = append(k.out.gits, join(d.path(), ".git"))
	}
	if kind == unix.DT_DIR {
		d.refs.Add(1)
		k.found = append(k.found, &dirNode{up: d, name: string(name), depth: d.depth + 1, stops: below})
	}
	return nil
}

// count looks whether a name is one of several. It calls statx(2) on the
// bytes in the buffer: a copy of each name would cost as much as the call.
func (k *worker) count(d *dirNode, name []byte) (isDir bool, err error) {
	const mask = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(d.fd), uintptr(unsafe.Pointer(&name[0])),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, mask, uintptr(unsafe.Pointer(&k.stat)), 0)
	switch {
	case errno == unix.ENOENT:
		return false, nil // removed since it was listed
	case errno != 0:
		return false, fmt.Errorf("cannot look at %q: %w", join(d.path(), string(name)), errno)
	}
	switch st := &k.stat; {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return true, nil
	case st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFLNK:
		k.out.linked = append(k.out.linked, named{
			path:  join(d.path(), string(name)),
			id:    FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino},
			links: uint64(st.Nlink),
		})
	}
	return false, nil
}
