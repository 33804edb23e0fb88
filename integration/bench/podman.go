package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container/engine"
)

// podmanService is a podman of the bench's own: a service for pinfold, and
// storage that the podman on the command line shares with it.
type podmanService struct {
	path, dir string
	cmd       *exec.Cmd
	storage   []string // flags of podman
}

// podmanConf has podman run where it wouldn't by itself: crun refuses a machine
// with cgroups of both versions, and limits above the caller's own refuse
// everything. It is both sides'.
const podmanConf = `[engine]
%scgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = [%s]
`

// startPodman starts one.
func (b *bench) startPodman() (*podmanService, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return nil, err
	}
	p := &podmanService{path: path, dir: filepath.Join(b.root, "podman")}
	runtimeDir := filepath.Join(p.dir, "run")
	if err := errors.Join(os.Mkdir(p.dir, 0o700), os.Mkdir(runtimeDir, 0o700), p.configure()); err != nil {
		return nil, err
	}
	// Storage of its own, since podman keeps where its directories are in the
	// storage itself.
	p.storage = []string{
		"--root", p.dir + "/root", "--runroot", p.dir + "/runroot", "--tmpdir", p.dir + "/tmp", "--storage-driver", "overlay",
	}
	// Both sides inherit these.
	err = errors.Join(os.Setenv("CONTAINERS_CONF", p.dir+"/conf"), os.Setenv("XDG_RUNTIME_DIR", runtimeDir))
	if err != nil {
		return nil, err
	}
	return p, p.serve()
}

func (p *podmanService) endpoint() string { return "unix://" + p.dir + "/s" }

// podmanProcesses is what podman lowers its own RLIMIT_NPROC to: pid_max, as
// the kernel has it with few processors (PID_MAX_DEFAULT).
const podmanProcesses = 32768

// configure writes the settings.
func (p *podmanService) configure() error {
	runtime := ""
	if _, err := exec.LookPath("runc"); err == nil {
		runtime = "runtime = \"runc\"\n"
	}
	var limits []string
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{{"nofile", unix.RLIMIT_NOFILE, 1 << 20}, {"nproc", unix.RLIMIT_NPROC, podmanProcesses}} {
		var have unix.Rlimit
		if err := unix.Getrlimit(l.resource, &have); err != nil {
			return fmt.Errorf("cannot read the limit %s: %w", l.name, err)
		}
		limits = append(limits, fmt.Sprintf(`"%s=%[2]d:%[2]d"`, l.name, min(have.Max, l.most)))
	}
	return os.WriteFile(p.dir+"/conf", fmt.Appendf(nil, podmanConf, runtime, strings.Join(limits, ", ")), 0o600)
}

// serve starts the service and waits until it answers.
func (p *podmanService) serve() error {
	// A file, not a pipe: a rootless podman leaves a process behind that holds
	// its user namespace, and the pipe with it.
	log, err := os.Create(p.dir + "/log")
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the service has its own
	p.cmd = exec.Command(p.path, append(p.storage, "system", "service", "--time=0", p.endpoint())...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = "/", log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		e, err := engine.Connect(ctx, engine.Podman, p.endpoint())
		if err == nil {
			return e.Close()
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("cannot start podman: %w: %s", err, said), p.end())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// end ends the service and takes away what it stored.
func (p *podmanService) end() error {
	// The whole group: a rootless podman is two processes, and the second one
	// outlives the first.
	err := unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Wait() // it was killed
	if os.Getuid() != 0 {
		// What is stored belongs to users of its own namespace.
		rm := exec.Command(p.path, append(p.storage, "unshare", "rm", "-rf", p.dir+"/root")...)
		return errors.Join(err, rm.Run(), p.endPause())
	}
	// All of it goes with the directory, which podman has made a mount.
	if uerr := unix.Unmount(p.dir+"/root/overlay", 0); uerr != nil && !errors.Is(uerr, unix.EINVAL) && !errors.Is(uerr, unix.ENOENT) {
		err = errors.Join(err, uerr)
	}
	return err
}

// endPause ends the process that keeps a rootless podman's namespaces.
func (p *podmanService) endPause() error {
	text, err := os.ReadFile(p.dir + "/tmp/pause.pid")
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
	return unix.Kill(pid, unix.SIGKILL)
}
