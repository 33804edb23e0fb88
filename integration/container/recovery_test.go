//go:build linux

package container_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/recover"
)

// loop goes on until it is told to end.
const loop = `trap 'exit 9' TERM; while :; do sleep 0.1; done`

// adopt asks for the verdict on a record, as the process parent's owner.
func (r *running) adopt(parent int) (recover.Verdict, int) {
	r.t.Helper()
	got := r.call("adopt", "--record", r.record, "--parent", itoa(parent))
	var v recover.Verdict
	if got.stdout != "" {
		if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
			r.t.Fatalf("%v: %v", err, got)
		}
	}
	return v, got.code
}

// TestRecover is what becomes of a launch whose owner comes back: each row of
// supervisor and container.
func TestRecover(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		t.Run("alive", func(t *testing.T) { p.aliveRow(t) })
		t.Run("ended", func(t *testing.T) { p.endedRow(t) })
		t.Run("running", func(t *testing.T) { p.runningRow(t) })
		t.Run("gone", func(t *testing.T) { p.goneRow(t) })
		t.Run("unreachable", func(t *testing.T) { p.unreachableRow(t) })
	})
}

// aliveRow: the wrapper that runs nothing but the supervisor is adopted.
func (p *pen) aliveRow(t *testing.T) {
	record := filepath.Join(p.state, "alive")
	inner := p.args(nil, loop, "--record", record)
	cmd := p.command(context.Background(), inner...)
	// A shell in between stands for the wrapper that outlives its daemon.
	cmd.Args = append([]string{"sh", "-c", `"$@" & wait $!; exit $?`, "sh", p.bin}, inner...)
	cmd.Path = "/bin/sh"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{pen: p, cmd: cmd, record: record}
	p.until("it runs", func() bool { return r.stored().Root != nil })
	var v recover.Verdict
	p.until("it can be told", func() bool {
		var code int
		v, code = r.adopt(cmd.Process.Pid)
		return code != 125
	})
	if !v.Adoptable || v.State != recover.Running {
		t.Errorf("%+v", v)
	}
	if v, code := r.adopt(os.Getpid()); code != 3 || v.Adoptable {
		t.Errorf("for another parent: exit %d, %+v", code, v)
	}
	if got := p.call("stop", "--record", record); got.code != 0 || !strings.Contains(got.stdout, "SIGTERM") {
		t.Errorf("%v", got)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("the wrapper ended with %v", err)
	}
	if e := r.stored().Exit; e == nil || e.Code != 9 || e.Reason != "interrupted" || e.Stop != "term" {
		t.Errorf("recorded %+v", e)
	}
}

// endedRow: the supervisor was killed, and the command ended by itself.
func (p *pen) endedRow(t *testing.T) {
	r := p.start(nil, "sleep 1; exit 6")
	r.killSupervisor()
	ref := refOf(r.stored().Container)
	p.until("the container ends", func() bool {
		s, err := p.e.Inspect(t.Context(), ref)
		return err == nil && s.Ended()
	})
	v, code := r.adopt(999999)
	if code != 0 || !v.Adoptable || v.State != recover.Exited || v.Exit == nil || v.Exit.Code != 6 {
		t.Errorf("exit %d, %+v", code, v)
	}
	if got := p.call("wait", "--record", r.record); got.code != 6 {
		t.Errorf("%v", got)
	}
	if got := p.call("reap", "--record", r.record); got.code != 0 || !strings.Contains(got.stdout, ref.ID) {
		t.Errorf("%v", got)
	}
	if e := r.stored().Exit; e == nil || e.Code != 6 || e.Reason != "exited" {
		t.Errorf("recorded %+v", e)
	}
}

// runningRow: nobody supervises it, so it is not adopted, and is stopped
// before a retry.
func (p *pen) runningRow(t *testing.T) {
	r := p.start(nil, loop, "--execution", "row")
	r.killSupervisor()
	if v, code := r.adopt(os.Getpid()); code != 3 || v.Adoptable || v.State != recover.Running || !strings.Contains(v.Fix, "stop") {
		t.Errorf("exit %d, %+v", code, v)
	}
	if got := p.wrap(nil, "true", "--execution", "row"); got.code != 125 || !strings.Contains(got.stderr, "container_running") {
		t.Errorf("a second one: %v", got)
	}
	if got := p.call("ps", "--record", r.record, "--json"); !strings.Contains(got.stdout, `"state": "running"`) || !strings.Contains(got.stdout, p.workspace) {
		t.Errorf("%v", got)
	}
	if got := p.call("stop", "--record", r.record); got.code != 0 {
		t.Errorf("%v", got)
	}
	if e := r.stored().Exit; e == nil || e.Code != 9 || e.Reason != "interrupted" {
		t.Errorf("recorded %+v", e)
	}
	if got := p.wrap(nil, "true", "--execution", "row"); got.code != 0 {
		t.Errorf("afterwards: %v", got)
	}
}

// goneRow: the engine answers, and has no such container.
func (p *pen) goneRow(t *testing.T) {
	r := p.start(nil, loop)
	r.killSupervisor()
	if err := p.e.Remove(t.Context(), refOf(r.stored().Container)); err != nil {
		t.Fatal(err)
	}
	if v, code := r.adopt(os.Getpid()); code != 3 || v.State != recover.Lost || v.Proof != recover.ProofContainer {
		t.Errorf("exit %d, %+v", code, v)
	}
	if got := p.call("stop", "--record", r.record); got.code != 0 {
		t.Errorf("%v", got)
	}
}

// unreachableRow: an engine that doesn't answer, and another one in its place,
// leave it unclear: nothing is confirmed.
func (p *pen) unreachableRow(t *testing.T) {
	r := p.start(nil, loop)
	r.killSupervisor()
	file := filepath.Join(r.record, "container")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := *r.stored().Container
	elsewhere := strings.ReplaceAll(string(text), c.Endpoint, "unix://"+p.home+"/no.sock")
	another := strings.ReplaceAll(string(text), c.Daemon, "ANOTHER")
	for name, changed := range map[string]string{"unreachable": elsewhere, "another": another} {
		r.rewrite(t, file, changed)
		if v, code := r.adopt(os.Getpid()); code != 3 || v.Adoptable || v.State != "" || v.Proof != recover.ProofEngine {
			t.Errorf("%s: exit %d, %+v", name, code, v)
		}
		if got := p.call("stop", "--record", r.record); got.code == 0 {
			t.Errorf("%s: a stop is confirmed: %v", name, got)
		}
	}
	r.rewrite(t, file, string(text))
	if s, err := p.e.Inspect(t.Context(), refOf(&c)); err != nil || s.Status != container.Running {
		t.Errorf("%+v, %v", s, err)
	}
	if got := p.call("stop", "--record", r.record); got.code != 0 {
		t.Errorf("%v", got)
	}
}

func (r *running) rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	r.give(file)
}

// TestListingFailure: an engine that doesn't answer a listing is an error, and
// never "no container".
func TestListingFailure(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		broken := *p.l
		broken.endpoint = "unix://" + p.brokenEngine(l)
		p.l = &broken
		got := p.wrap(nil, "echo ran", "--execution", "x")
		if got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, "containers_unknown") {
			t.Errorf("%v", got)
		}
	})
}

// brokenEngine passes everything on but listings, which it answers with 500.
func (p *pen) brokenEngine(l *lab) string {
	p.t.Helper()
	name := filepath.Join(p.home, "engine.sock")
	s, err := net.Listen("unix", name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.give(name)
	to := strings.TrimPrefix(l.endpoint, "unix://")
	engine := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", to)
		}},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // of a test
		if strings.HasSuffix(r.URL.Path, "/containers/json") {
			http.Error(w, `{"message":"broken"}`, http.StatusInternalServerError)
			return
		}
		engine.ServeHTTP(w, r)
	})}
	go server.Serve(s) //nolint:errcheck // ends with the test
	p.t.Cleanup(func() { server.Close() })
	return name
}

// TestReap clears what lost launches left with the engine: one that runs on,
// one that has ended, and the directories of both.
func TestReap(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		lives := p.start(nil, loop)
		lost := p.start(nil, loop)
		lost.killSupervisor()
		dry := p.call("reap", "--dry-run", "--record", lost.record, "--record", lives.record)
		id := lost.stored().Container.ID
		if !strings.Contains(dry.stdout, "would remove the container") || !strings.Contains(dry.stdout, id) || strings.Contains(dry.stdout, lives.stored().Container.ID) {
			t.Errorf("%v", dry)
		}
		if got := p.call("reap", "--record", lost.record, "--record", lives.record); got.code != 0 || !strings.Contains(got.stdout, id) || !strings.Contains(got.stdout, "1 launch lives") {
			t.Errorf("%v", got)
		}
		if list := p.containers(t.Context()); len(list) != 1 || list[0].Ref.ID != lives.stored().Container.ID {
			t.Errorf("%v", list)
		}
		if got := p.call("stop", "--record", lives.record); got.code != 0 || lives.wait() != 9 {
			t.Errorf("%v", got)
		}
	})
}

// TestReapRecordsTheEnd: a record that lies elsewhere and that nobody named
// learns how its launch ended, since the container is gone afterwards.
func TestReapRecordsTheEnd(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		lost := p.start(nil, loop)
		lost.killSupervisor()
		id := lost.stored().Container.ID
		if got := p.call("reap"); got.code != 0 || strings.Count(got.stdout, id) != 1 {
			t.Errorf("%v", got)
		}
		if got := p.call("wait", "--record", lost.record); got.code != 9 {
			t.Errorf("%v", got)
		}
		if list := p.containers(t.Context()); len(list) != 0 {
			t.Errorf("%v", list)
		}
	})
}

// TestManyAtOnce: twenty launches share a state directory and a workspace.
func TestManyAtOnce(t *testing.T) {
	inTurn(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		const many = 20
		var cmds []*exec.Cmd
		said := make([]buffer, many)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		for i := range many {
			cmd := p.command(ctx, p.args(nil, fmt.Sprintf("echo %d >f%d; exit %d", i, i, i), "--execution", fmt.Sprint("e", i))...)
			cmd.Stdout, cmd.Stderr = &said[i], &said[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, cmd)
		}
		for i, cmd := range cmds {
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != i {
				t.Errorf("launch %d: %v: %s", i, err, said[i].String())
			}
			if _, err := os.Stat(filepath.Join(p.workspace, "f"+fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		}
	})
}
