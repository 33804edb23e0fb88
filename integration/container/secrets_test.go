//go:build linux

package container_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecretsStayInside greps for the value wherever pinfold or an engine
// keeps anything, while the command that has it runs.
func TestSecretsStayInside(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		const value = "s3cr3t-8f1d2c4b"
		p := newPen(t, l)
		p.env = append(p.env, "DEPLOY_TOKEN="+value)
		events := filepath.Join(filepath.Dir(p.home), "events")
		if err := os.WriteFile(events, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		p.give(events)
		more := map[string]any{"env": map[string]any{"secrets": []string{"DEPLOY_TOKEN"}}, "network": map[string]any{"allow": []string{"example.test"}}}
		r := p.start(more, `trap 'exit 0' TERM; echo "${#DEPLOY_TOKEN}"; cat /proc/1/limits | grep core; while :; do sleep 0.1; done`, "--events", events, "--events-level", "all")
		limit := regexp.MustCompile("(?m)^Max core file size +(\\S+) .*\n")
		p.until("the command has its secret, and says its limit", func() bool {
			return strings.Contains(r.stdout.String(), "up\n15\n") && limit.MatchString(r.stdout.String()) || r.over()
		})
		id := r.stored().Container.ID
		if strings.Contains(fmt.Sprint(l.inspect(t, id)), value) {
			t.Error("inspect shows it")
		}
		for _, dir := range []string{p.state, r.record, events, "/var/lib/docker/containers/" + id, filepath.Join(shared.dir, l.name)} {
			grep(t, dir, value)
		}
		for _, pid := range []int{r.cmd.Process.Pid, r.stored().Root.Init.PID} {
			b, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
			if err != nil || bytes.Contains(b, []byte(value)) {
				t.Errorf("the arguments of process %d: %q, %v", pid, b, err)
			}
		}
		if b, err := os.ReadFile("/proc/" + itoa(r.stored().Root.Init.PID) + "/environ"); err == nil && bytes.Contains(b, []byte(value)) {
			t.Error("pid 1 has it in its environment")
		}
		if got := limit.FindStringSubmatch(r.stdout.String()); got == nil || got[1] != "0" {
			t.Errorf("a core may be dumped: %q", got)
		}
		if got := p.call("stop", "--record", r.record); got.code != 0 {
			t.Errorf("%v", got)
		}
		r.wait()
		grep(t, p.state, value)
	})
}

// grep fails for a file beneath a directory that holds a text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // gone meanwhile, or no file
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			t.Errorf("%s has it", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestHandoverIsClosed: the command finds neither the socket nor the nonce,
// and pid 1 keeps what it knows to itself.
func TestHandoverIsClosed(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		got := p.wrap(map[string]any{"network": map[string]any{"allow": []string{"example.test"}}}, `
ls -A /.pinfold/run
touch /.pinfold/run/x 2>/dev/null && echo "writes in it"
for f in environ mem maps fd/0 fd/3 fd/4 fd/5 fd/6 cwd/ root/etc; do cat /proc/1/$f >/dev/null 2>&1 && echo "reads $f"; done
for s in KILL STOP SEGV ABRT 33; do kill -$s 1; done
sleep 0.2; echo alive; kill -0 1 && echo pid 1 too`)
		if got.code != 0 || got.stdout != "alive\npid 1 too\n" {
			t.Errorf("%v", got)
		}
	})
}
