package notify

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// rights are the capabilities of this process that no command of its has. A
// command of root's is root, without capabilities: another user's closed
// directory is closed to it. Its user and groups are this process's, since the
// sandbox maps one user and lets nobody become another. So without them a
// thread may do what the command may (capabilities(7), path_resolution(7)).
type rights struct {
	full capabilities
}

// capabilities are those of a thread, as capget(2) has them.
type capabilities [2]unix.CapUserData

func (c *capabilities) any() bool { return c[0].Effective|c[1].Effective != 0 }

// newRights finds out what this process has: nothing, as a rule.
func newRights() (rights, error) {
	var r rights
	if err := unix.Capget(header(), &r.full[0]); err != nil {
		return r, fmt.Errorf("cannot tell this process's capabilities: %w", err)
	}
	return r, nil
}

// header means the calling thread.
func header() *unix.CapUserHeader {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// lowered does something on a thread that has none of them meanwhile. Others
// keep theirs: the capabilities of a thread are its own. Nothing is done where
// they can't be given up.
func (r *rights) lowered(do func()) error {
	if !r.full.any() {
		do()
		return nil
	}
	runtime.LockOSThread()
	none := r.full
	none[0].Effective, none[1].Effective = 0, 0
	if err := unix.Capset(header(), &none[0]); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot give capabilities up: %w", err)
	}
	do()
	if unix.Capset(header(), &r.full[0]) == nil {
		runtime.UnlockOSThread()
	} // else the thread ends with its goroutine, and serves nobody else
	return nil
}
