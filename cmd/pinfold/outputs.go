package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/plan"
)

// reach is what a command may write, as far as it concerns the files that
// pinfold reports to: none may be forged, or led elsewhere.
type reach struct {
	// writable: the command may write what stands at a canonical path.
	writable func(path string) bool
	// turnable: a command, perhaps an earlier one, may make links in a
	// directory.
	turnable func(dir string) bool
	// linked: a file that the command writes may have names elsewhere.
	linked bool
}

func reachOf(g *guard.Grant) reach {
	return reach{writable: g.Writable, turnable: g.Writable, linked: len(g.Policy().HardLinks.AllowFrom) > 0}
}

// reachOfNone is for a launch that was refused: nobody writes now, but who ran
// in this workspace before may have left links.
func reachOfNone(workspace string) reach {
	return reach{
		writable: func(string) bool { return false },
		turnable: func(dir string) bool { return workspace != "" && strings.HasPrefix(dir+"/", workspace+"/") },
	}
}

// reachOfMounts is what a launch that was recorded may write.
func reachOfMounts(mounts []plan.Mount) reach {
	writable := func(path string) bool {
		best, access := -1, ""
		for _, m := range mounts {
			source := m.Source
			if source == "" {
				source = m.Path
			}
			if len(source) > best && strings.HasPrefix(path+"/", strings.TrimSuffix(source, "/")+"/") {
				best, access = len(source), m.Access
			}
		}
		return access == guard.ReadWrite.String()
	}
	return reach{writable: writable, turnable: writable}
}

// errWritable: a report there could be forged.
var errWritable = errors.New("the command may write there")

// place is where a file is to be written: a name in a canonical directory.
func (r reach) place(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	dir, links, err := wayTo(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	for _, l := range links {
		if r.turnable(filepath.Dir(l)) {
			return "", fmt.Errorf("the way there leads through %q, a symbolic link that a command may have made", l)
		}
	}
	path := filepath.Join(dir, filepath.Base(abs))
	if r.writable(path) {
		return "", errWritable
	}
	return path, nil
}

// check refuses an open file that the command could write by a name of its
// own. What has no name (a pipe, a socket, a deleted file) it can't, and what
// is a terminal or a device holds nothing to forge. The path is "" where there
// is none.
func (r reach) check(f *os.File) (path string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("nobody knows what it is")
	}
	if st.Nlink == 0 || !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return "", nil
	}
	if path, err = descriptorPath(f); err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) && !info.Mode().IsRegular() {
		return "", nil // a pipe without a name
	}
	// A directory that this user can't pass, neither can the command, which
	// is the same user.
	switch named, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrPermission):
	case err != nil || !os.SameFile(info, named):
		return "", errors.New("its name can't be told, so neither can who may write it")
	}
	switch {
	case r.writable(path):
		return "", fmt.Errorf("it is %q, and %w", path, errWritable)
	case r.linked && st.Nlink > 1:
		return "", fmt.Errorf("it has %d names, and hard_links.allow_from may let the command write by one of them", st.Nlink)
	}
	return path, nil
}

// inheritedFile takes over a descriptor that the caller opened. One that is
// closed on exec is none of the caller's: it is this process's own.
func inheritedFile(number string) (*os.File, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("%q is no descriptor", number)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, fmt.Errorf("descriptor %d isn't open", fd)
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("descriptor %d isn't open for writing", fd)
	}
	if fd > 2 {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fd), "fd:"+number), nil
}

// descriptorNumber is N of fd:N, and of what shells make of >(command).
func descriptorNumber(spec string) (string, bool) {
	for _, prefix := range []string{"fd:", "/dev/fd/", "/proc/self/fd/"} {
		if n, ok := strings.CutPrefix(spec, prefix); ok {
			return n, true
		}
	}
	return "", false
}

// sameOutput reports whether two reports would be written to one file, where
// the one would end the other. Several may go into one pipe.
func sameOutput(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	first, second := outputAt(a), outputAt(b)
	if first.fd != "" && first.fd == second.fd {
		return true
	}
	if first.found && second.found {
		return first.st.Dev == second.st.Dev && first.st.Ino == second.st.Ino && first.st.Mode&unix.S_IFMT == unix.S_IFREG
	}
	return first.path != "" && first.path == second.path
}

// output is what one report's destination leads to now.
type output struct {
	fd, path string
	found    bool
	st       unix.Stat_t
}

func outputAt(spec string) output {
	var o output
	if number, ok := descriptorNumber(spec); ok {
		if fd, err := strconv.Atoi(number); err == nil {
			o.fd, o.found = strconv.Itoa(fd), unix.Fstat(fd, &o.st) == nil
		}
		return o
	}
	abs, err := filepath.Abs(spec)
	if err != nil {
		return o
	}
	dir, _, err := wayTo(filepath.Dir(abs))
	if err != nil {
		return o // whoever opens it will say so
	}
	o.path = filepath.Join(dir, filepath.Base(abs))
	o.found = unix.Lstat(o.path, &o.st) == nil
	return o
}
