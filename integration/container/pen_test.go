//go:build linux

package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/container/launch"
	"pinfold/plan"
)

// penPinfold is the program itself, built once.
var penPinfold = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // built once for all tests
	if bin := os.Getenv("PINFOLD_BIN"); bin != "" {
		return bin, nil
	}
	bin := filepath.Join(shared.dir, "pinfold")
	for _, args := range [][]string{{"sh", "../../stub/build.sh"}, {"go", "build", "-trimpath", "-o", bin, "../../cmd/pinfold"}} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot run %v: %w\n%s", args, err, out)
		}
	}
	return bin, os.Chmod(bin, 0o755)
})

// pen is a place to call pinfold from, as the lab's user.
type pen struct {
	*box
	state string
	image string
	bin   string
}

func newPen(t *testing.T, l *lab) *pen {
	t.Helper()
	bin, err := penPinfold()
	if err != nil {
		t.Fatal(err)
	}
	if l.name != "podman-rootless" { // who calls pinfold, the command is
		own := *l
		own.uid, own.gid = os.Getuid(), os.Getgid()
		l = &own
	}
	p := &pen{box: newBox(t, l), bin: bin}
	p.state = filepath.Join(filepath.Dir(p.home), "state")
	p.mkdir(p.state)
	if err := os.Chmod(p.state, 0o700); err != nil {
		t.Fatal(err)
	}
	p.image = l.load(t, p.e, shellImage(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if left := p.containers(ctx); len(left) > 0 {
			t.Errorf("left behind: %v", left)
			l.sweep(ctx, t, p.e, launch.HostLabel(p.state))
		}
	})
	return p
}

// containers are those of this pen.
func (p *pen) containers(ctx context.Context) []container.State {
	p.t.Helper()
	list, err := p.e.List(ctx, map[string]string{container.LabelHost: launch.HostLabel(p.state)})
	if err != nil {
		p.t.Error(err)
	}
	return list
}

// policy writes a policy for this engine and image, with more fields.
func (p *pen) policy(more map[string]any) string {
	p.t.Helper()
	doc := map[string]any{
		"tier": "container", "write": []string{"{workspace}"},
		"container": map[string]any{"runtime": p.l.engine, "image": p.image},
	}
	for k, v := range more {
		doc[k] = v
	}
	text, err := json.Marshal(doc)
	if err != nil {
		p.t.Fatal(err)
	}
	f, err := os.CreateTemp(filepath.Dir(p.home), "policy-*.json")
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		p.t.Fatal(err)
	}
	return f.Name()
}

// command is a call of pinfold, not started.
func (p *pen) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.bin, args...)
	cmd.Dir = p.workspace
	cmd.Env = append([]string{
		"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "PINFOLD_STATE=" + p.state,
		map[string]string{"docker": "DOCKER_HOST=", "podman": "CONTAINER_HOST="}[p.l.engine] + p.l.endpoint,
	}, p.env...)
	if p.l.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.l.uid), Gid: uint32(p.l.gid)}}
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// answer is what came of a call.
type answer struct {
	code           int
	stdout, stderr string
}

func (a answer) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", a.code, a.stdout, a.stderr)
}

// call runs pinfold to its end.
func (p *pen) call(args ...string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	return p.ended(p.command(ctx, args...))
}

func (p *pen) ended(cmd *exec.Cmd) answer {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// wrap runs a script in a container.
func (p *pen) wrap(more map[string]any, script string, flags ...string) answer {
	p.t.Helper()
	return p.call(p.args(more, script, flags...)...)
}

func (p *pen) args(more map[string]any, script string, flags ...string) []string {
	p.t.Helper()
	return append(append([]string{"wrap", "--quiet", "--policy", p.policy(more)}, flags...), "--", "/bin/sh", "-c", script)
}

// running is a launch that goes on, with its record.
type running struct {
	*pen
	cmd            *exec.Cmd
	record         string
	stdout, stderr *buffer
	ended          chan struct{}
}

// buffer is written by one goroutine and read by another.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start begins a launch whose script says "up" when it runs, and waits for
// that.
func (p *pen) start(more map[string]any, script string, flags ...string) *running {
	p.t.Helper()
	r := p.begin(more, script, flags...)
	p.until("the command runs", func() bool { return strings.Contains(r.stdout.String(), "up") || r.over() })
	if r.over() {
		p.t.Fatalf("it ended before the command ran: %s%s", r.stdout.String(), r.stderr.String())
	}
	return r
}

// begin is start that doesn't wait.
func (p *pen) begin(more map[string]any, script string, flags ...string) *running {
	p.t.Helper()
	r := &running{pen: p, record: filepath.Join(p.state, "record-"+fmt.Sprint(time.Now().UnixNano())), stdout: &buffer{}, stderr: &buffer{}, ended: make(chan struct{})}
	r.cmd = p.command(context.Background(), p.args(more, announced(script), append(flags, "--record", r.record)...)...)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() //nolint:errcheck // its state says how it ended
		close(r.ended)
	}()
	p.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// announced has a script say "up": first of all, but behind a trap that it
// begins with, so that a signal finds it set.
func announced(script string) string {
	const end = "TERM; "
	trap, rest, found := strings.Cut(script, end)
	if found && strings.HasPrefix(script, "trap ") {
		return trap + end + "echo up; " + rest
	}
	return "echo up; " + script
}

func (r *running) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// until waits for something that nothing tells of.
func (p *pen) until(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(90 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("not within 90 s: %s", what)
		}
	}
}

// wait waits for the end and answers pinfold's exit code.
func (r *running) wait() int {
	r.t.Helper()
	r.until("the launch ends", r.over)
	return r.cmd.ProcessState.ExitCode()
}

// killSupervisor kills pinfold alone.
func (r *running) killSupervisor() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	<-r.ended
}

// stored is what matters of the record, as it is now; it may be another
// user's.
func (r *running) stored() *plan.Stored {
	r.t.Helper()
	s := &plan.Stored{Path: r.record}
	for name, to := range map[string]any{"container": &s.Container, "root": &s.Root, "exit": &s.Exit} {
		b, err := os.ReadFile(filepath.Join(r.record, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, to)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return s
}

// refOf is a recorded container.
func refOf(c *plan.Container) container.Ref {
	return container.Ref{Provider: c.Provider, Daemon: c.Daemon, Endpoint: c.Endpoint, ID: c.ID}
}

// withTerminal adds a session of its own to a process's attributes.
func withTerminal(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}
	a.Setsid, a.Setctty = true, true
	return a
}
