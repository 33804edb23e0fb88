//go:build linux

package container_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pinfold/container"
)

// there reports whether something stands at a name in the workspace.
func (p *pen) there(name string) bool {
	p.t.Helper()
	_, err := os.Lstat(filepath.Join(p.workspace, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return err == nil
}

// leases are what the state directory holds of mount points.
func (p *pen) leases() []string {
	p.t.Helper()
	var out []string
	for _, pattern := range []string{"*.lease", "*.tenant"} {
		list, err := filepath.Glob(filepath.Join(p.state, "covers", pattern))
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// nothingLeft: no mount point, and no lease of one.
func (p *pen) nothingLeft(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if p.there(name) {
			t.Errorf("%s is left behind", name)
		}
	}
	if left := p.leases(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// missingNames are rules for names that aren't there, and what tries them.
var missingNames = map[string]any{ //nolint:gochecknoglobals // a table
	"read":      map[string]any{"deny": []any{"{workspace}/secret", "{workspace}/a/b/deep", map[string]any{"path": "{workspace}/empty", "as": "empty"}}},
	"read_only": []string{"{workspace}/fixed"},
}

const tryMissing = `
	bad() { echo "BAD $1"; }
	for n in secret a/b/deep empty fixed; do
		mkdir $n 2>/dev/null && bad "mkdir $n"
		rmdir $n 2>/dev/null && bad "rmdir $n"
		rm -rf $n 2>/dev/null && bad "rm $n"
		mv $n moved 2>/dev/null && bad "mv $n"
		echo x 2>/dev/null >$n && bad "write $n"
		echo x 2>/dev/null >$n/x && bad "write in $n"
	done
	for n in a a/b; do
		mv $n moved 2>/dev/null && bad "mv $n"
		rmdir $n 2>/dev/null && bad "rmdir $n"
	done
	ls secret 2>/dev/null && bad "ls secret"
	[ -z "$(ls -A fixed empty | grep -v :)" ] || bad "ls fixed empty"
	echo tried
`

// TestMissingNames: names that aren't there, and mustn't be, can't be made.
func TestMissingNames(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(missingNames, tryMissing+`while [ ! -e go ]; do sleep 0.05; done; exit 3`)
		r.until("all is tried", func() bool { return strings.Contains(r.stdout.String(), "tried") || r.over() })
		if strings.Contains(r.stdout.String(), "BAD") {
			t.Error(r.stdout.String())
		}
		for _, name := range []string{"secret", "a/b/deep", "empty", "fixed"} {
			if !p.there(name) {
				t.Errorf("%s has no mount point: the test shows nothing", name)
			}
		}
		p.file(filepath.Join(p.workspace, "go"), "")
		if code := r.wait(); code != 3 {
			t.Errorf("exit %d: %s", code, r.stderr.String())
		}
		p.nothingLeft(t, "secret", "a", "empty", "fixed")
	})
}

// TestSharedMountPoints: two containers of one workspace need the same one,
// which stays until the last has ended, and so does a supervisor's that is
// killed.
func TestSharedMountPoints(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		script := func(n string) string {
			return `while [ ! -e go` + n + ` ]; do mkdir secret 2>/dev/null && { echo BAD; exit 9; }; [ -d secret ] || { echo GONE; exit 8; }; sleep 0.05; done; exit ` + n
		}
		first := p.start(missingNames, script("1"))
		second := p.start(missingNames, script("2"))
		third := p.start(missingNames, script("3"))
		third.killSupervisor()
		p.file(filepath.Join(p.workspace, "go1"), "")
		if code := first.wait(); code != 1 {
			t.Errorf("first: exit %d, %s %s", code, first.stdout.String(), first.stderr.String())
		}
		if got := p.wrap(nil, "exit 5"); got.code != 5 { // reclaims what it may
			t.Errorf("between: %s", got)
		}
		if !p.there("secret") {
			t.Error("gone while two need it")
		}
		p.file(filepath.Join(p.workspace, "go2"), "")
		if code := second.wait(); code != 2 {
			t.Errorf("second: exit %d, %s %s", code, second.stdout.String(), second.stderr.String())
		}
		if !p.there("secret") {
			t.Error("gone while a container without a supervisor needs it")
		}
		if got := p.call("stop", "--record", third.record); got.code != 0 {
			t.Error(got)
		}
		p.nothingLeft(t, "secret", "a", "empty", "fixed")
	})
}

// beginKept begins a launch whose record is kept in the state directory.
func (p *pen) beginKept(policy map[string]any, script string, flags ...string) *running {
	p.t.Helper()
	r := &running{pen: p, stdout: &buffer{}, stderr: &buffer{}, ended: make(chan struct{})}
	r.cmd = p.command(p.t.Context(), p.args(policy, script, flags...)...)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() //nolint:errcheck // its state says how it ended
		close(r.ended)
	}()
	return r
}

// awaitsLock reports whether a launch waits for a lock, proc_locks(5).
func (r *running) awaitsLock() bool {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 5 && f[1] == "->" && f[5] == strconv.Itoa(r.cmd.Process.Pid) {
			return true
		}
	}
	return false
}

// TestStartWhileAnotherEnds: a launch whose guard has seen the mount point of
// another one starts, though that one ends before it has a lease of its own; and
// where it was granted the mount point it has it as long as it runs.
func TestStartWhileAnotherEnds(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		for name, c := range map[string]struct {
			policy        map[string]any
			chdir, script string
		}{
			"denied":  {missingNames, "", tryMissing},
			"granted": {map[string]any{"write": []string{"{workspace}/secret"}}, "secret", "echo x >x && rm x && echo tried"},
		} {
			t.Run(name, func(t *testing.T) {
				p := newPen(t, l)
				first := p.beginKept(missingNames, "echo up; while [ ! -e go ]; do sleep 0.05; done")
				p.until("the first one runs", func() bool { return first.stdout.String() != "" || first.over() })
				records, err := os.Open(filepath.Join(p.state, "records"))
				if err != nil {
					t.Fatal(err)
				}
				defer records.Close()
				if err := syscall.Flock(int(records.Fd()), syscall.LOCK_EX); err != nil {
					t.Fatal(err)
				}
				second := p.beginKept(c.policy, c.script, "--chdir", filepath.Join(p.workspace, c.chdir)) // its guard looks, and then it waits for its record
				p.until("the second one waits", func() bool { return second.awaitsLock() || second.over() })
				p.file(filepath.Join(p.workspace, "go"), "")
				first.wait()
				if err := records.Close(); err != nil {
					t.Fatal(err)
				}
				if code := second.wait(); code != 0 || second.stdout.String() != "tried\n" {
					t.Errorf("exit %d: %s%s", code, second.stdout.String(), second.stderr.String())
				}
				p.nothingLeft(t, "secret", "a", "empty", "fixed")
			})
		}
	})
}

// TestMountPointsOfTheKilled: a mount point lasts as long as the container does,
// whatever becomes of its supervisor, and is taken away by whoever comes next.
func TestMountPointsOfTheKilled(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		wait := `while [ ! -e go ]; do sleep 0.05; done; mkdir secret && exit 9; exit 3`
		for name, next := range map[string]func(r *running){
			"reap": func(r *running) {
				if got := p.call("reap", "--record", r.record); got.code != 0 || !strings.Contains(got.stdout, "secret") {
					t.Error(got)
				}
			},
			"resume": func(r *running) {
				cmd, said := p.command(t.Context(), "resume", "--record", r.record), &buffer{}
				cmd.Stderr = said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				p.until("it is taken over", func() bool { return said.String() != "" })
				p.file(filepath.Join(p.workspace, "go"), "")
				if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 3 { //nolint:errcheck // the state says it
					t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), said.String())
				}
			},
			"the next launch": func(r *running) {
				p.file(filepath.Join(p.workspace, "go"), "")
				p.until("the container ends", func() bool {
					list := p.containers(t.Context())
					return !slices.ContainsFunc(list, func(s container.State) bool { return s.Alive() })
				})
				if !p.there("secret") {
					t.Error("nothing was left: the test shows nothing")
				}
				if got := p.wrap(nil, "ls -A"); got.code != 0 || strings.Contains(got.stdout, "secret") {
					t.Error(got)
				}
				if got := p.call("reap", "--record", r.record); got.code != 0 {
					t.Error(got)
				}
			},
		} {
			r := p.start(missingNames, wait)
			r.killSupervisor()
			if got := p.wrap(nil, "ls -A"); got.code != 0 || !strings.Contains(got.stdout, "secret") {
				t.Errorf("%s: taken from under a container: %s", name, got)
			}
			next(r)
			p.nothingLeft(t, "secret", "a", "empty", "fixed")
			if err := os.Remove(filepath.Join(p.workspace, "go")); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	})
}

// TestMountPointTaken: the host puts the mount point to use, which takes the
// cover along: the run ends, and what the host made stays.
func TestMountPointTaken(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(missingNames, `while :; do sleep 0.1; done`)
		secret := filepath.Join(p.workspace, "secret")
		if err := os.Remove(secret); err != nil {
			t.Fatal(err)
		}
		p.file(secret, "the host's")
		if code := r.wait(); code != 123 || r.stored().Exit == nil || r.stored().Exit.Reason != "boundary_lost" {
			t.Errorf("exit %d, %+v, %s", code, r.stored().Exit, r.stderr.String())
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "the host's" {
			t.Errorf("%q, %v", text, err)
		}
		p.nothingLeft(t, "a", "empty", "fixed")
	})
}

// TestSocketsAppear: a unix socket that the host makes in a grant while the
// command runs could be connected to: the run ends. One that is listed, denied
// or out of sight is nobody's business.
func TestSocketsAppear(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		listen := func(path string) func() {
			t.Helper()
			s, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			p.give(path)
			return func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		name := filepath.Join(p.workspace, "s")
		script := `while [ ! -e go ]; do sleep 0.05; done; sleep 1.5; exit 3`
		for more, code := range map[string]int{
			`{}`: 123, `{"unix_sockets": "all"}`: 3, `{"read": {"deny": ["{workspace}/s", "{workspace}/sub"]}}`: 3,
		} {
			var fields map[string]any
			if err := json.Unmarshal([]byte(more), &fields); err != nil {
				t.Fatal(err)
			}
			at := name
			if code == 3 && fields["read"] != nil {
				at = filepath.Join(p.home, "s") // what stands at a denied name detaches its cover
			}
			log := filepath.Join(p.state, "events")
			r := p.start(fields, script, "--events", log)
			done := listen(at)
			p.file(filepath.Join(p.workspace, "go"), "")
			if got := r.wait(); got != code {
				t.Errorf("%s: exit %d, wanted %d: %s", more, got, code, r.stderr.String())
			}
			if events, err := os.ReadFile(log); code == 123 && (err != nil || !strings.Contains(string(events), "socket_in_grant") || !strings.Contains(string(events), `"boundary"`)) {
				t.Errorf("events: %s, %v", events, err)
			}
			done()
			if err := os.Remove(filepath.Join(p.workspace, "go")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSocketsByAnotherName: what a socket was called when somebody bound it
// doesn't matter: it shows where it stands.
func TestSocketsByAnotherName(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		bound, shown := filepath.Join(p.home, "bound"), filepath.Join(p.workspace, "sub/s")
		p.mkdir(filepath.Dir(shown))
		for name, c := range map[string]struct {
			bring func(string, string) error
			code  string // of the refusal
		}{"renamed": {os.Rename, "socket_in_grant"}, "linked": {os.Link, "hard_link"}} {
			s, err := net.Listen("unix", bound)
			if err != nil {
				t.Fatal(err)
			}
			p.give(bound)
			log := filepath.Join(p.state, "events-"+name)
			r := p.start(nil, `sleep 30`, "--events", log)
			if err := c.bring(bound, shown); err != nil {
				t.Fatal(err)
			}
			code := r.wait()
			if events, err := os.ReadFile(log); err != nil || code != 123 || !strings.Contains(string(events), "socket_in_grant") || !strings.Contains(string(events), shown) {
				t.Errorf("%s while it runs: exit %d, events %s, %v", name, code, events, err)
			}
			if got := p.wrap(nil, "true"); got.code != 125 || !strings.Contains(got.stderr, c.code) {
				t.Errorf("%s before: %v", name, got)
			}
			if err := errors.Join(s.Close(), os.Remove(shown)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
