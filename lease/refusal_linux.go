package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// pointError is a mount point that can't be made.
type pointError struct {
	path string
	err  error
}

func (e *pointError) Error() string {
	return fmt.Sprintf("cannot make the mount point %q: %v", e.path, e.err)
}

func (e *pointError) Unwrap() error { return e.err }

// refusal is what becomes of a launch without a mount point that it needs.
func refusal(err error) error {
	e, ok := errors.AsType[*pointError](err)
	if !ok {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cannot_cover", Subject: e.path, Err: err,
		Why: fmt.Sprintf("cannot keep %q from being made inside: %v", e.path, err), Fix: e.fix(),
	}
}

// fix opens a directory that its owner has closed to himself: the command
// could do that as well, so that the name can't be left without a cover.
func (e *pointError) fix() string {
	const leave = "leave the rule out"
	dir := filepath.Dir(e.path)
	for ; dir != "/" && !exists(dir); dir = filepath.Dir(dir) {
	}
	var st unix.Stat_t
	if errors.Is(e.err, unix.EACCES) && unix.Stat(dir, &st) == nil && int(st.Uid) == os.Geteuid() {
		return fmt.Sprintf("chmod u+wx %q, or %s", dir, leave)
	}
	return "make it, or " + leave
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}
