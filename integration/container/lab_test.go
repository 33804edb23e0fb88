//go:build linux

package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/container/conformance"
	"pinfold/container/engine"
	"pinfold/container/seccomp"
)

// busybox is a static shell to make images of.
const busybox = "/bin/busybox"

// lab is one engine to test with, and the user that it is used as.
type lab struct {
	name     string // docker, podman, podman-rootless
	engine   string // of package engine
	endpoint string
	uid, gid int
	home     string
	client   client
}

// labs are made once for all tests of a run.
type labs struct {
	dir    string
	podman map[string]*lab
	stops  []func() error
	mu     sync.Mutex
}

var shared = &labs{podman: map[string]*lab{}} //nolint:gochecknoglobals // the engines of a test run are started once

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("PINFOLD_INTEGRATION") == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "pfc")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared.dir = dir
	code := m.Run()
	for _, stop := range slices.Backward(shared.stops) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// everyEngine runs a test once for each engine that this machine has, on all of
// them at the same time: mostly it waits for them. One engine has one test at a
// time, since some look at all that an engine has.
func everyEngine(t *testing.T, f func(*testing.T, *lab)) {
	t.Helper()
	engines(t, func(t *testing.T, l func(*testing.T) *lab) {
		t.Parallel()
		f(t, l(t))
	})
}

// inTurn is everyEngine for a test that needs the whole machine.
func inTurn(t *testing.T, f func(*testing.T, *lab)) {
	t.Helper()
	engines(t, func(t *testing.T, l func(*testing.T) *lab) { f(t, l(t)) })
}

func engines(t *testing.T, f func(*testing.T, func(*testing.T) *lab)) {
	t.Helper()
	if os.Getenv("PINFOLD_INTEGRATION") == "" {
		t.Skip("PINFOLD_INTEGRATION is not set")
	}
	for _, e := range []struct {
		name string
		make func(*testing.T) *lab
	}{{"docker", dockerLab}, {"podman", podmanLab}, {"podman-rootless", rootlessLab}} {
		t.Run(e.name, func(t *testing.T) { f(t, e.make) })
	}
}

func dockerLab(t *testing.T) *lab {
	t.Helper()
	const socket = "/run/docker.sock"
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Skipf("no docker: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	u, g := testUser(t)
	return &lab{name: "docker", engine: engine.Docker, endpoint: "unix://" + socket, uid: u, gid: g, home: "/root", client: dockerClient("unix://" + socket)}
}

// testUser is whom a container's command runs as: an ordinary user where root
// runs the tests.
func testUser(t *testing.T) (uid, gid int) {
	t.Helper()
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid()
	}
	u, err := user.Lookup("tester")
	if err != nil {
		return 1001, 1001
	}
	return number(t, u.Uid), number(t, u.Gid)
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func podmanLab(t *testing.T) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("no podman of root's: not root")
	}
	u, g := testUser(t)
	return shared.startPodman(t, &lab{name: "podman", engine: engine.Podman, uid: u, gid: g, home: "/root"}, nil)
}

func rootlessLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{name: "podman-rootless", engine: engine.Podman, uid: os.Getuid(), gid: os.Getgid(), home: os.Getenv("HOME")}
	var as *syscall.Credential
	if os.Getuid() == 0 {
		u, err := user.Lookup("tester")
		if err != nil {
			t.Skipf("no rootless podman: %v", err)
		}
		l.uid, l.gid, l.home = number(t, u.Uid), number(t, u.Gid), u.HomeDir
		as = &syscall.Credential{Uid: uint32(l.uid), Gid: uint32(l.gid)}
	}
	return shared.startPodman(t, l, as)
}

// containersConf has podman run where it wouldn't by itself: crun refuses a
// machine with cgroups of both versions.
const containersConf = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`

// startPodman starts podman's service for a user, once.
func (s *labs) startPodman(t *testing.T, l *lab, as *syscall.Credential) *lab {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.podman[l.name]; have != nil {
		return have
	}
	path, err := exec.LookPath("podman")
	if err != nil {
		t.Skipf("no podman: %v", err)
	}
	dir := filepath.Join(s.dir, l.name)
	runtimeDir := filepath.Join(dir, "run")
	for _, d := range []string{dir, runtimeDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, l.uidOf(as), l.gidOf(as)); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(s.dir, l.name+".conf")
	if err := os.WriteFile(conf, []byte(containersConf), 0o644); err != nil {
		t.Fatal(err)
	}
	l.endpoint = "unix://" + filepath.Join(dir, "s")
	// Storage of its own: podman keeps where its directories are in the
	// storage itself.
	args := []string{
		"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "runroot"), "--tmpdir", filepath.Join(dir, "tmp"),
		"--storage-driver", "overlay", "system", "service", "--time=0", l.endpoint,
	}
	// A file, not a pipe: a rootless podman leaves a process behind that holds
	// its user namespace, and the pipe with it.
	out, err := os.Create(filepath.Join(s.dir, l.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.home, "XDG_RUNTIME_DIR=" + runtimeDir, "CONTAINERS_CONF=" + conf, "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stops = append(s.stops, func() error {
		// The whole group: a rootless podman is two processes, and the second
		// one outlives the first.
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if werr := cmd.Wait(); werr != nil {
			if _, told := errors.AsType[*exec.ExitError](werr); !told {
				err = errors.Join(err, werr)
			}
		}
		return errors.Join(err, out.Close(), removeStorage(path, dir, cmd.Env, as), endPause(dir))
	})
	if err := s.await(l); err != nil {
		said, _ := os.ReadFile(out.Name()) //nolint:errcheck // it only adds to the message
		t.Skipf("no podman for %d: %v: %s", l.uid, err, said)
	}
	l.client = client{append([]string{path}, args[:len(args)-4]...), cmd.Env, as}
	s.podman[l.name] = l
	return l
}

// removeStorage removes what podman stored: a rootless one's files belong to
// users of its own namespace.
func removeStorage(podman, dir string, env []string, as *syscall.Credential) error {
	if os.Getuid() == 0 {
		// All of it goes with the directory, which podman has made a mount.
		err := syscall.Unmount(filepath.Join(dir, "root/overlay"), 0)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		return err
	}
	rm := exec.Command(podman, "unshare", "rm", "-rf", filepath.Join(dir, "root"))
	rm.Env, rm.Dir, rm.SysProcAttr = env, "/", &syscall.SysProcAttr{Credential: as}
	if out, err := rm.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot remove podman's storage: %w: %s", err, out)
	}
	return nil
}

// endPause ends the process that keeps a rootless podman's namespaces.
func endPause(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "tmp/pause.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func (l *lab) uidOf(as *syscall.Credential) int {
	if as == nil {
		return os.Getuid()
	}
	return int(as.Uid)
}

func (l *lab) gidOf(as *syscall.Credential) int {
	if as == nil {
		return os.Getgid()
	}
	return int(as.Gid)
}

// await waits until the engine answers.
func (s *labs) await(l *lab) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		e, err := engine.Connect(ctx, l.engine, l.endpoint)
		if err == nil {
			return e.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// connect opens the engine for one test, which leaves nothing behind.
func (l *lab) connect(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Connect(t.Context(), l.engine, l.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l.sweep(ctx, t, e, owner(t), "conformance-"+owner(t))
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// owner labels everything that a test makes.
func owner(t *testing.T) string { return "test-" + strconv.Itoa(os.Getpid()) + "-" + t.Name() }

func (l *lab) sweep(ctx context.Context, t *testing.T, e *engine.Engine, owners ...string) {
	t.Helper()
	for _, host := range owners {
		left, err := e.List(ctx, map[string]string{container.LabelHost: host})
		if err != nil {
			t.Error(err)
		}
		for _, s := range left {
			if err := e.Remove(ctx, s.Ref); err != nil {
				t.Error(err)
			}
		}
	}
}

// shellImage is busybox and nothing else.
func shellImage(t *testing.T) conformance.Image {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Skipf("no static busybox: %v", err)
	}
	files := map[string]conformance.File{
		"bin/busybox": {Mode: 0o755, Content: program},
		"etc/passwd":  {Mode: 0o644, Content: []byte("root:x:0:0:root:/:/bin/sh\n")},
		"tmp/":        {Mode: 0o755},
		"root/":       {Mode: 0o700},
	}
	for _, name := range []string{
		"sh", "cat", "echo", "ls", "id", "touch", "mkdir", "rm", "mv", "ln", "sleep", "true", "false", "test", "stat", "mount", "umount", "unshare",
		"head", "grep", "find", "wc", "dd", "kill", "env", "nc", "wget", "nslookup", "ps", "hostname", "chmod", "chown", "ip", "df", "sort", "seq", "cp", "sed", "awk", "tr", "readlink", "printf", "mknod", "time",
	} {
		files["bin/"+name] = conformance.File{Link: "/bin/busybox"}
	}
	return conformance.Image{Files: files, Name: "localhost/pinfold-test/shell:1", Architecture: runtime.GOARCH, Config: conformance.ImageConfig{Env: []string{"PATH=/bin"}}}
}

// load puts an image into the engine, unless it is there, and answers its ID.
func (l *lab) load(t *testing.T, e *engine.Engine, i conformance.Image) string {
	t.Helper()
	archive, id, err := i.Tar()
	if err != nil {
		t.Fatal(err)
	}
	if have, err := e.Resolve(t.Context(), i.Name); err == nil && have.ID == id {
		return id
	}
	if err := e.Load(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	img, err := e.Resolve(t.Context(), id)
	if err != nil || img.ID != id {
		t.Fatalf("loaded %s, and it is %s: %v", id, img.ID, err)
	}
	return id
}

// shell is a container whose pid 1 is a shell script.
func (l *lab) shell(t *testing.T, e *engine.Engine, script string) container.Spec {
	t.Helper()
	profile, err := seccomp.Profile(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	s := container.Spec{
		Image: l.load(t, e, shellImage(t)), Entrypoint: []string{"/bin/sh"}, Args: []string{"-c", script}, Dir: "/",
		UID: l.uid, GID: l.gid, Hostname: "pinfold", Seccomp: profile, ShmSize: 1 << 20,
		Labels: map[string]string{container.LabelHost: owner(t)},
		Limits: container.Limits{PIDs: 64},
		Tmpfs:  []container.Tmpfs{{Target: "/tmp", Size: 1 << 20, Mode: 0o1777, Exec: true}},
	}
	info, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Rootless {
		s.Userns = "keep-id"
		s.Limits = container.Limits{Processes: 4096}
	}
	return s
}
