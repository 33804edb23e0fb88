package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"pinfold/stub"
	"pinfold/supervise"
)

// fingerprint tells a program from what stood at its path before: a new one
// has another inode, and one that was written to has another ctime, which
// nobody can set (inode(7)).
func fingerprint(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", fmt.Errorf("cannot look at %q: %w", path, err)
	}
	return fmt.Sprintf("%s %d:%d %d %d.%d", path, st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec), nil
}

// knownWhole reports whether a launch of this boot has learnt that bubblewrap has
// to mount everything. Where that is so no more, it is slower and nothing else.
func knownWhole(known map[string]string) bool {
	boot, told := known[wholeKey]
	if !told {
		return false
	}
	now, err := bootID()
	return err == nil && now == boot
}

// rememberWhole writes that down, beside what is known.
func (a *Ahead) rememberWhole() {
	if a == nil {
		return
	}
	known, err := a.known()
	boot, berr := bootID()
	if err == nil && berr == nil && known != nil {
		known[wholeKey] = boot
		a.write(known)
	}
}

// holdStub puts the stub into a file for bubblewrap, before anybody knows
// whether there will be a launch: its million and a half bytes take longer than
// the guard. If it can't, the launch says why.
func holdStub() *os.File {
	p, err := stub.Open(runtime.GOARCH)
	if err != nil {
		return nil
	}
	fd, err := supervise.FillProgram(DataStub, p.WriteTo)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), DataStub)
}

// takeStub hands a descriptor of that file over, once; -1 is that there is none.
func (a *Ahead) takeStub() int {
	if a == nil {
		return -1
	}
	f := <-a.stub
	if f == nil {
		return -1
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return -1
	}
	return fd
}
