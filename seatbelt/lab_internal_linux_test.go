package seatbelt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// The helpers that this test binary is, by its first argument.
const fakeArg = "fake-sandbox-exec"

func TestMain(m *testing.M) {
	switch {
	case IsInside(os.Args):
		os.Exit(Inside())
	case len(os.Args) > 2 && os.Args[1] == fakeArg:
		os.Exit(fakeSandboxExec(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// fakeSandboxExec takes the arguments of sandbox-exec and uses Landlock in
// place of the profile: the directories of the list may be read and written,
// the system be read, and of TCP only the port of the profile be reached.
func fakeSandboxExec(dirs string, args []string) int {
	var profile string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-f":
			profile, i = args[i+1], i+1
		case "-D":
			i++
		case "--":
			return fakeRun(profile, dirs, args[i+1:])
		}
	}
	fmt.Fprintln(os.Stderr, "usage: sandbox-exec [options] command [args]")
	return 64
}

func fakeRun(profile, dirs string, argv []string) int {
	text, err := os.ReadFile(profile)
	if err != nil || len(os.Environ()) > 0 && os.Environ()[0][:4] != "PWD=" {
		fmt.Fprintln(os.Stderr, "sandbox-exec:", err, os.Environ())
		return 65
	}
	var port uint16
	if _, after, ok := strings.Cut(string(text), `(remote tcp "localhost:`); ok {
		fmt.Sscanf(after, "%d", &port)
	}
	ro := []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", argv[0]}
	if err := confine(ro, append(filepath.SplitList(dirs), "/dev"), port); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox-exec:", err)
		return 71
	}
	err = syscall.Exec(argv[0], argv, os.Environ())
	fmt.Fprintf(os.Stderr, "sandbox-exec: execvp() of %q failed: %v\n", argv[0], err)
	return 71
}

// confine is landlock(7) for the calling thread, which is the one that
// executes.
func confine(ro, rw []string, port uint16) error {
	runtime.LockOSThread()
	const files, all = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE, 1<<15 - 1
	attr := [2]uint64{all, unix.LANDLOCK_ACCESS_NET_CONNECT_TCP} // struct landlock_ruleset_attr
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), 16, 0)
	if errno != 0 {
		return errno
	}
	add := func(path string, access uint64) error {
		parent, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil // what isn't there needs no rule
		}
		var st unix.Stat_t
		if err := unix.Fstat(parent, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			access &= files
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(parent)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		return errnoError(errno)
	}
	for _, p := range ro {
		if err := add(p, unix.LANDLOCK_ACCESS_FS_EXECUTE|unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
			return err
		}
	}
	for _, p := range rw {
		if err := add(p, all); err != nil {
			return err
		}
	}
	if port != 0 {
		net := [2]uint64{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, 2, uintptr(unsafe.Pointer(&net)), 0, 0, 0); errno != 0 {
			return errno
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	return errnoError(errno)
}

func errnoError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func isDenied(target string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Target == target && e.Action == event.Denied }
}

// lab is a place for launches.
type lab struct {
	t         *testing.T
	dir       string // canonical, private
	workspace string
	tmp       string
	tool      string
	inside    string
	in        input
	events    *sink
}

type sink struct {
	mu   sync.Mutex
	list []event.Event
}

func (s *sink) Emit(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, e)
}

func (s *sink) all() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event.Event{}, s.list...)
}

func newLab(t *testing.T, argv ...string) *lab {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	l := &lab{t: t, dir: dir, events: &sink{}}
	for p, d := range map[string]*string{"w": &l.workspace, "tmp": &l.tmp} {
		*d = filepath.Join(dir, p)
		must(t, os.Mkdir(*d, 0o700))
	}
	l.inside, err = os.Executable()
	must(t, err)
	l.tool = l.script("sandbox-exec", "exec "+l.inside+" "+fakeArg+" "+l.workspace+":"+l.tmp+` "$@"`)
	l.in = input{
		view: view{entries: []guard.Entry{entry(l.workspace, guard.ReadWrite, guard.Dir, "{workspace}")}},
		argv: argv, dir: l.workspace, env: []string{"PATH=/usr/bin:/bin", "HOME=/nowhere", "TMPDIR=/tmp"},
		paths: guard.Paths{Tmp: "/tmp"},
	}
	return l
}

func (l *lab) script(name, text string) string {
	p := filepath.Join(l.dir, name)
	must(l.t, os.WriteFile(p, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return p
}

func (l *lab) translate() *Launch {
	l.t.Helper()
	launch, err := translate(l.in, Machine{Tool: plan.Tool{Path: l.tool, Version: "15.0"}}, LaunchOptions{
		Umask: 0o027, Tmp: l.tmp, Inside: l.inside, Fresh: []Fresh{{"{tmp}", l.tmp}},
	})
	must(l.t, err)
	return launch
}

// options with a new record.
func (l *lab) options() StartOptions {
	l.t.Helper()
	dir, err := os.MkdirTemp(l.dir, "record")
	must(l.t, err)
	rec, err := plan.CreateRecord(dir)
	must(l.t, err)
	l.t.Cleanup(func() { rec.Close() })
	return StartOptions{Record: rec, Events: l.events, Run: "r", Grace: 5 * time.Second, Egress: l.proxy, Fresh: []Fresh{{"{tmp}", l.tmp}}}
}

func (l *lab) proxy(p egress.Password) (Egress, error) {
	d := egress.NewDecider(l.in.network)
	return &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}, Events: l.events, Password: &p}, nil
}

// run starts the lab's command and waits for it.
func (l *lab) run() (stdout, stderr string, exit Exit) {
	l.t.Helper()
	o := l.options()
	out, err := os.CreateTemp(l.dir, "out")
	must(l.t, err)
	errs, err := os.CreateTemp(l.dir, "err")
	must(l.t, err)
	o.Stdout, o.Stderr = out, errs
	p, err := start(l.t.Context(), l.tool, l.translate(), o)
	if err != nil {
		b, _ := os.ReadFile(errs.Name())
		l.t.Fatalf("%v\n%s", err, b)
	}
	exit, err = p.Wait()
	must(l.t, err)
	return readBack(l.t, out), readBack(l.t, errs), exit
}

func readBack(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return string(b)
}

func (l *lab) fails() error {
	l.t.Helper()
	p, err := start(l.t.Context(), l.tool, l.translate(), l.options())
	if err == nil {
		_ = p.Stop(0)
		l.t.Fatal("it started")
	}
	return err
}

func code(err error) string {
	var r *policy.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return fmt.Sprintf("%v", err)
}
