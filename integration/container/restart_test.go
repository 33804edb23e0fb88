//go:build linux

package container_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold/container/engine"
)

// ownDocker is a docker of the test's own, which it may kill.
type ownDocker struct {
	t    *testing.T
	dir  string
	args []string
	cmd  *exec.Cmd
	out  bytes.Buffer
}

// newDocker starts one beside the machine's: with directories, a socket and no
// network of its own, so that the two never meet.
func newDocker(t *testing.T, more ...string) *ownDocker {
	t.Helper()
	if os.Getenv("PINFOLD_INTEGRATION") == "" {
		t.Skip("PINFOLD_INTEGRATION is not set")
	}
	path, err := exec.LookPath("dockerd")
	if os.Getuid() != 0 || err != nil {
		t.Skipf("no docker: only root can start one of the test's own (%v)", err)
	}
	dir, err := os.MkdirTemp("", "pfd")
	if err != nil {
		t.Fatal(err)
	}
	d := &ownDocker{t: t, dir: dir}
	d.args = append([]string{
		path, "--data-root", dir + "/data", "--exec-root", dir + "/exec", "--pidfile", dir + "/pid", "-H", d.endpoint(),
		"--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false",
	}, more...)
	d.start()
	t.Cleanup(d.end)
	return d
}

func (d *ownDocker) endpoint() string { return "unix://" + d.dir + "/s" }

func (d *ownDocker) start() {
	d.t.Helper()
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	// Without a bridge it would take away the machine's own, docker0.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if e, err := engine.Connect(context.Background(), engine.Docker, d.endpoint()); err == nil {
			if err := e.Close(); err != nil {
				d.t.Error(err)
			}
			return
		}
	}
	d.t.Fatalf("it doesn't answer: %s", d.out.String())
}

// kill ends it as a crash would.
func (d *ownDocker) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	_ = d.cmd.Wait() //nolint:errcheck // it was killed
	_ = os.Remove(d.dir + "/pid")
	// Its containerd dies with it, and is a zombie for as long as nobody reaps
	// it, which the next docker takes for a living one.
	_ = os.Remove(d.dir + "/exec/containerd/containerd.pid")
}

// end stops it, and takes its directories away.
func (d *ownDocker) end() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait() //nolint:errcheck // it was told to end
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.dir) {
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			}
		}
	}
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Error(err)
	}
}

// TestEngineRestart: an engine killed in mid-run and started again. Without
// live-restore it ends its containers as it starts, which nobody asked for;
// with it they go on. Nothing is lost, and the verdict is right.
func TestEngineRestart(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  []string
		reason string
		code   int
	}{
		{"stops its containers", nil, "interrupted", 42},
		{"live-restore", []string{"--live-restore"}, "exited", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDocker(t, c.flags...)
			p := newPen(t, &lab{name: "docker", engine: engine.Docker, endpoint: d.endpoint(), home: "/root"})
			row := map[string]string{"interrupted": "warn", "exited": "ok"}[c.reason]
			if got := p.call("doctor", "--tier", "container"); !regexp.MustCompile(`(?m)^` + row + ` +container restarts `).MatchString(got.stdout) {
				t.Errorf("doctor doesn't say %q: %v", row, got)
			}
			port := serveWeb(t, okHandler)
			more := map[string]any{"network": map[string]any{"allow": []string{"127.0.0.1:" + port}}}
			r := p.start(more, viaProxy+`trap 'exit 42' TERM; while [ ! -e end ]; do wget -q -O - http://127.0.0.1:`+port+`/ >>out || exit 99; sleep 0.1; done; exit 7`)
			d.kill()
			before := p.size("out")
			p.until("the proxy serves on without the engine", func() bool { return p.size("out") > before+4 || r.over() })
			d.start()
			if c.reason == "exited" {
				if err := os.WriteFile(filepath.Join(p.workspace, "end"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			code := r.wait()
			if e := r.stored().Exit; code != c.code || e == nil || e.Reason != c.reason {
				t.Errorf("exit %d, recorded %+v\n%s", code, e, r.stderr.String())
			}
		})
	}
}

func (p *pen) size(name string) int64 {
	st, err := os.Stat(filepath.Join(p.workspace, name))
	if err != nil {
		return 0
	}
	return st.Size()
}
