package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/bwrap/cgroup"
	"pinfold/notify"
	"pinfold/plan"
)

// probeTimeout bounds one start of bubblewrap, which takes some 30 ms.
const probeTimeout = 10 * time.Second

// Live asks this machine.
type Live struct {
	// Path is the PATH that bubblewrap is looked for on.
	Path string
	// Run launches true under a policy document, through the code that wrap
	// uses; the command hands it in.
	Run func(ctx context.Context, document string) error
	// RunFile does so under the policy in a file.
	RunFile func(ctx context.Context, file string) error

	tool *plan.Tool
}

// Bubblewrap finds the program that wrap would use.
func (l *Live) Bubblewrap(ctx context.Context) (Bubblewrap, error) {
	tool, err := l.locate(ctx)
	if err != nil {
		return Bubblewrap{}, err
	}
	b := Bubblewrap{Path: tool.Path}
	if _, err := fmt.Sscanf(tool.Version, "%d.%d.%d", &b.Version[0], &b.Version[1], &b.Version[2]); err != nil {
		return Bubblewrap{}, fmt.Errorf("cannot read version %q: %w", tool.Version, err)
	}
	return b, nil
}

func (l *Live) locate(ctx context.Context) (plan.Tool, error) {
	if l.tool == nil {
		tool, err := bwrap.Locate(ctx, l.Path, nil)
		if err != nil {
			return plan.Tool{}, err
		}
		l.tool = &tool
	}
	return *l.tool, nil
}

// Namespaces starts bubblewrap itself inside the namespaces asked for: a
// program that is surely there and that ends at once. The root is bound, so
// that a no is about the namespaces and nothing else.
func (l *Live) Namespaces(ctx context.Context, kinds ...string) error {
	tool, err := l.locate(ctx)
	if err != nil {
		return fmt.Errorf("bubblewrap comes first: %w", err)
	}
	args := []string{"--ro-bind", "/", "/"}
	for _, k := range kinds {
		args = append(args, namespaceArgs[k]...)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool.Path, append(args, "--", tool.Path, "--version")...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	exit, isExit := errors.AsType[*exec.ExitError](err)
	if !isExit {
		return err
	}
	// bubblewrap says 128+n for a child of its own that a signal ended.
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signal() == unix.SIGSYS || status.ExitStatus() == 128+int(unix.SIGSYS) {
		return fmt.Errorf("bubblewrap: %w", ErrKilled)
	}
	if exit.Exited() {
		return fmt.Errorf("bubblewrap exited %d: %w", exit.ExitCode(), ErrNotThere)
	}
	return err
}

// namespaceArgs are the options that make each namespace. A mount namespace
// is made by bubblewrap whatever it is asked.
var namespaceArgs = map[string][]string{
	"user":   {"--unshare-user", "--disable-userns"},
	"mnt":    {},
	"pid":    {"--unshare-pid"},
	"net":    {"--unshare-net"},
	"ipc":    {"--unshare-ipc"},
	"uts":    {"--unshare-uts"},
	"cgroup": {"--unshare-cgroup"},
	"proc":   {"--proc", "/proc"},
}

// Launch runs true under a policy.
func (l *Live) Launch(ctx context.Context, document string) error {
	if l.Run == nil {
		return errors.New("nothing to launch with")
	}
	return l.Run(ctx, document)
}

// LaunchFile runs true under the policy in a file.
func (l *Live) LaunchFile(ctx context.Context, file string) error {
	if l.RunFile == nil {
		return errors.New("nothing to launch with")
	}
	return l.RunFile(ctx, file)
}

// Connections asks what the supervisor asks.
func (l *Live) Connections() (answered, told error) {
	if err := notify.Available(); err != nil {
		return err, nil
	}
	return nil, notify.CanTellSockets()
}

// Limits looks where a launch would look.
func (l *Live) Limits() error {
	_, err := cgroup.Find(cgroup.Limits{}, cgroup.Options{All: true})
	return err
}

// Disk is statfs(2), and access(2) as the effective user.
func (l *Live) Disk(dir string) (Disk, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Stat(dir, &st), unix.Statfs(dir, &fs)); err != nil {
		return Disk{}, fmt.Errorf("cannot look at %q: %w", dir, err)
	}
	d := Disk{Owner: int(st.Uid), ReadOnly: fs.Flags&unix.ST_RDONLY != 0, Free: int64(fs.Bavail) * int64(fs.Bsize)}
	if fs.Files > 0 && fs.Ffree == 0 {
		d.Free = 0 // file systems without inodes of their own say 0 of 0
	}
	err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	d.Writable = err == nil
	if err != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EROFS) {
		return Disk{}, fmt.Errorf("cannot tell whether %q can be written: %w", dir, err)
	}
	return d, nil
}

// LandlockABI is landlock_create_ruleset(2)'s version; the errors are those
// of a kernel built without it, of one booted without it, and of a profile in
// front of it, which hides what the kernel has.
func (l *Live) LandlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(abi), nil
	case unix.ENOSYS, unix.EOPNOTSUPP:
		return 0, nil
	case unix.EPERM:
		return 0, fmt.Errorf("%w: %w", ErrNotThere, errno)
	}
	return 0, errno
}

// Syscall asks with arguments that a kernel which has the call refuses in a
// known way, and that do nothing.
func (l *Live) Syscall(name string) error {
	ask, known := syscallProbes[name]
	if !known {
		return fmt.Errorf("internal error: no probe for %q", name)
	}
	return conclude(ask())
}

// conclude reads a probe's errno: the calls answer bad arguments with EBADF,
// EINVAL or EFAULT; ENOSYS is a kernel without the call, EPERM a filter in
// front of it, which for our purpose is the same.
func conclude(errno unix.Errno) error {
	switch errno {
	case 0, unix.EBADF, unix.EINVAL, unix.EFAULT:
		return nil
	case unix.ENOSYS, unix.EPERM, unix.EOPNOTSUPP:
		return fmt.Errorf("%w: %w", ErrNotThere, errno)
	}
	return errno
}

var syscallProbes = map[string]func() unix.Errno{
	"openat2": func() unix.Errno {
		fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
		if err == nil {
			unix.Close(fd)
		}
		return errnoOf(err)
	},
	"pidfd_open": func() unix.Errno {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err == nil {
			unix.Close(fd)
		}
		return errnoOf(err)
	},
	"pidfd_getfd": func() unix.Errno {
		_, err := unix.PidfdGetfd(-1, 0, 0)
		return errnoOf(err)
	},
	"close_range": func() unix.Errno {
		return errnoOf(unix.CloseRange(1<<30, 1<<30, 0))
	},
	// Each of these is refused before anything is made: a flag that unshare(2)
	// doesn't know, threads without shared signals, no place to mount
	// at. What says EPERM to that is a filter, or to the last one the kernel, where
	// CAP_SYS_ADMIN is missing.
	"unshare": func() unix.Errno {
		return errnoOf(unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_PTRACE))
	},
	"clone": func() unix.Errno {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD, 0, 0, 0, 0, 0)
		return errno
	},
	"mount": func() unix.Errno {
		_, _, errno := unix.RawSyscall6(unix.SYS_MOUNT, 0, 0, 0, 0, 0, 0)
		return errno
	},
	"pivot_root": func() unix.Errno {
		_, _, errno := unix.RawSyscall(unix.SYS_PIVOT_ROOT, 0, 0, 0)
		return errno
	},
	"seccomp_errno":        func() unix.Errno { return filterAction(unix.SECCOMP_RET_ERRNO) },
	"seccomp_kill_process": func() unix.Errno { return filterAction(unix.SECCOMP_RET_KILL_PROCESS) },
	"seccomp_user_notif":   func() unix.Errno { return actionAvailable(unix.SECCOMP_RET_USER_NOTIF) },
}

// actionAvailable is seccomp(2)'s SECCOMP_GET_ACTION_AVAIL (4.14).
func actionAvailable(action uint32) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno
}

// filterAction is an action of the first filter, which bubblewrap loads with
// prctl(2): a profile that refuses seccomp(2) alone doesn't stop it. The call
// answers EFAULT to a program at 0 where filters can be loaded, and every
// kernel that is new enough for the rest has both actions (4.14).
func filterAction(action uint32) unix.Errno {
	errno := actionAvailable(action)
	if errno != unix.ENOSYS && errno != unix.EPERM {
		return errno
	}
	return errnoOf(unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0))
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if errno, isErrno := errors.AsType[unix.Errno](err); isErrno {
		return errno
	}
	return unix.EIO
}
