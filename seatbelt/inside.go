package seatbelt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The descriptors of the program inside, beside the standard streams.
const (
	setupFD   = 3 // to read the Setup from
	outcomeFD = 4 // to say an outcome to
)

// IsInside reports whether this process is the program that a launch runs
// inside the boundary: then main calls [Inside] and nothing else.
func IsInside(args []string) bool { return len(args) == 2 && args[1] == InsideArg }

// Inside proves the boundary from inside and becomes the command. It returns
// only what to exit with when that failed; the supervisor has been told why.
func Inside() int { return inside(prove) }

// inside takes what is tried first, so that tests without a sandbox can do
// without.
func inside(prove func(Claims) error) int {
	say := os.NewFile(outcomeFD, "outcome")
	unix.CloseOnExec(outcomeFD) // its end tells the supervisor that the command runs
	s, err := receiveSetup()
	if err == nil {
		err = prepareSelf(s, prove)
	}
	if err != nil {
		return tell(say, err)
	}
	path, err := find(s)
	if err != nil {
		return tell(say, err)
	}
	if err := json.NewEncoder(say).Encode(outcome{Ready: true}); err != nil {
		return CodeRefused
	}
	return tell(say, execute(path, s))
}

func receiveSetup() (Setup, error) {
	f := os.NewFile(setupFD, "setup")
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return Setup{}, fmt.Errorf("cannot read the setup: %w", err)
	}
	return decodeSetup(b)
}

func prepareSelf(s Setup, prove func(Claims) error) error {
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := prove(s.Claims); err != nil {
		return err
	}
	unix.Umask(s.Umask)
	for _, l := range []struct {
		resource int
		value    int64
	}{{unix.RLIMIT_NOFILE, s.Files}, {unix.RLIMIT_FSIZE, s.FileSize}} {
		if l.value == 0 {
			continue
		}
		limit := unix.Rlimit{Cur: uint64(l.value), Max: uint64(l.value)}
		if err := unix.Setrlimit(l.resource, &limit); err != nil {
			return fmt.Errorf("cannot set a limit: %w", err)
		}
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("cannot start in %q: %w", s.Dir, err)
	}
	return nil
}

// notRunnable is a command that can't be executed though nothing was refused.
type notRunnable struct {
	code int
	name string
	err  error
}

func (e *notRunnable) Error() string {
	return fmt.Sprintf("cannot execute %q: %v", e.name, e.err)
}

// find is the program by the command's own PATH, as execvp(3) would look for
// it: a name with a slash is a path.
func find(s Setup) (string, error) {
	name := s.Argv[0]
	if strings.Contains(name, "/") {
		return name, runnable(name, name)
	}
	var denied error
	for _, dir := range filepath.SplitList(pathOf(s.Env)) {
		if dir == "" {
			dir = "."
		}
		p := dir + "/" + name
		err := runnable(name, p)
		if err == nil {
			return p, nil
		}
		var n *notRunnable
		if errors.As(err, &n) && n.code == CodeNotExecutable && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &notRunnable{CodeNotFound, name, errors.New("it is in no directory of PATH")}
}

func pathOf(env []string) string {
	path := "/usr/bin:/bin:/usr/sbin:/sbin" // confstr(3), where PATH isn't set
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			path = rest
		}
	}
	return path
}

// runnable looks at one candidate. The code is a shell's.
func runnable(name, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &notRunnable{CodeNotFound, name, cause(err)}
	case err != nil:
		return &notRunnable{CodeNotExecutable, name, cause(err)}
	case info.IsDir():
		return &notRunnable{CodeNotExecutable, name, errors.New("it is a directory")}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &notRunnable{CodeNotExecutable, name, err}
	}
	return nil
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// execute becomes the command; it returns only where it can't. A script
// without an interpreter line is the shell's, as execvp(3) has it.
func execute(path string, s Setup) error {
	err := syscall.Exec(path, s.Argv, s.Env)
	if errors.Is(err, syscall.ENOEXEC) {
		argv := append([]string{"/bin/sh", path}, s.Argv[1:]...)
		err = syscall.Exec("/bin/sh", argv, s.Env)
	}
	code := CodeNotExecutable
	if errors.Is(err, fs.ErrNotExist) {
		code = CodeNotFound // the interpreter of a script
	}
	return &notRunnable{code, s.Argv[0], err}
}

// tell says why the command doesn't run.
func tell(say *os.File, err error) int {
	o := outcome{Code: CodeRefused, Why: err.Error()}
	var n *notRunnable
	if errors.As(err, &n) {
		o.Code = n.code
	}
	var b *brokenError
	o.Broken = errors.As(err, &b)
	_ = json.NewEncoder(say).Encode(o) // the supervisor has gone: nobody to tell
	return o.Code
}

// closeOnExec marks every descriptor but the standard streams, so that none
// that whoever started pinfold left open gets to the command: one opened
// elsewhere works whatever the profile says (sandbox(7)).
func closeOnExec() error {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return fmt.Errorf("cannot list descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("cannot list descriptors: %w", err)
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd) // one that is gone by now needs no mark
		}
	}
	return nil
}
