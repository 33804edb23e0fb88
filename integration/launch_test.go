//go:build linux

package integration_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	// Grandchildren whose parents are gone end as children of the sandbox's
	// first process; none may stay as a zombie.
	res := l.wrap(t, sh(workspaceOnly(), `i=0; while [ $i -lt 50 ]; do (true & ) ; i=$((i+1)); done
		n=0; while grep -qs '^State:.Z' /proc/[0-9]*/status && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.05; done
		grep -s '^State:.Z' /proc/[0-9]*/status; echo reaped`))
	if res.stdout != "reaped\n" || res.code != 0 {
		t.Errorf("got %v", res)
	}
}

func TestStartDirectory(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	mkdir(t, l.ws+"/sub")
	for name, c := range map[string]struct {
		dir   string
		flags []string
		want  string
	}{
		"the caller's":           {l.public, nil, l.public},
		"beneath the workspace":  {l.ws + "/sub", nil, l.ws + "/sub"},
		"chosen":                 {l.public, []string{"--chdir", l.ws + "/sub"}, l.ws + "/sub"},
		"the caller's is hidden": {"/tmp", nil, "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := l.wrap(t, launch{policy: workspaceOnly(), dir: c.dir, flags: c.flags, argv: []string{"pwd"}})
			if got := strings.TrimSpace(res.stdout); res.code != 0 || got != c.want && !(c.dir == "/tmp" && got == l.ws) {
				t.Errorf("started in %q, want %q: %v", got, c.want, res)
			}
		})
	}
	refused(t, l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--chdir", l.protect}, argv: ran()}), l.protect)
	refused(t, l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--chdir", l.root + "/nowhere"}, argv: ran()}), "nowhere")
}

// TestAnotherUser: a root caller runs the whole launch as somebody else, who
// can do what that user can and nothing more.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if os.Getuid() != 0 {
		t.Skip("only root can run a launch as another user")
	}
	nobody, err := user.Lookup("nobody")
	must(t, err)
	theirs, state := l.root+"/theirs", l.root+"/their-state"
	for _, dir := range []string{theirs, state} {
		mkdir(t, dir)
		if out, err := exec.Command("chown", "nobody:", dir).CombinedOutput(); err != nil {
			t.Fatalf("chown: %v: %s", err, out)
		}
		must(t, os.Chmod(dir, 0o700))
	}
	must(t, os.Chmod(l.root, 0o711))
	flags := []string{"--workspace", theirs, "--state", state}
	res := l.wrap(t, launch{bare: true, dir: "/", flags: append(flags, "--user", "nobody"), policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", "cd '" + theirs + "'; id -u; echo x > made; stat -c %u made"}})
	if want := nobody.Uid + "\n" + nobody.Uid + "\n"; res.code != 0 || res.stdout != want {
		t.Errorf("want %q: %v", want, res)
	}
	refused(t, l.wrap(t, launch{bare: true, dir: "/", flags: []string{"--workspace", state, "--state", l.state}, policy: workspaceOnly(), argv: ran()}), "--user")
}

func TestEventsAreJSONLines(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	closed, _ := server(t, "denied")
	open, _ := server(t, "allowed")
	file := l.root + "/events.jsonl"
	res := l.wrap(t, sh(allows(open), curl+"-o /dev/null http://"+closed+"/", "--events", file, "--quiet"))
	if res.code != 0 {
		t.Fatalf("got %v", res)
	}
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	denied := 0
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var e struct{ Time, Run, Kind, Action, Target string }
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil || e.Time == "" || e.Run == "" || e.Kind == "" {
			t.Errorf("no event: %v: %s", err, scan.Text())
		}
		if e.Kind == "network" && e.Action == "denied" && strings.Contains(e.Target, closed) {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("%d events say that %s was denied, want one", denied, closed)
	}
}

// TestNeedsOutsideTheGrantRefuse: what a launch says it needs never widens
// the grant.
func TestNeedsOutsideTheGrantRefuse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, c := range map[string]struct {
		needs doc
		ok    bool
	}{
		"a write inside":  {doc{"write": []string{l.ws}}, true},
		"a write outside": {doc{"write": []string{l.public}}, false},
		"a host outside":  {doc{"hosts": []string{"a.example:443"}}, false},
		"a denied read":   {doc{"read": []string{l.home + "/.ssh/id_ed25519"}}, false},
		"a protected one": {doc{"read": []string{l.protect + "/token"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--needs", l.policyFile(t, c.needs)}, argv: ran()})
			if c.ok {
				if res.code != 0 {
					t.Errorf("want it to run: %v", res)
				}
				return
			}
			refused(t, res, "sandbox_denied")
		})
	}
}

// TestNestedLaunch: pinfold inside pinfold is refused with a reason, since
// user namespaces are locked inside, and never runs the command without.
func TestNestedLaunch(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{built.pinfold, "wrap", "--state", l.run + "/state", "--workspace", l.ws, "--", "echo", "RAN"}})
	if res.code != 125 || strings.Contains(res.stdout, "RAN") || !strings.Contains(res.stderr, "hint: ") {
		t.Errorf("want a refusal: %v", res)
	}
}

// TestReadOnlyVendorTreeStaysUsable: what lies beside a read-only path, and
// across its pinned parents, works as always.
func TestReadOnlyVendorTreeStaysUsable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.ws+"/a/b/keep", "keep\n", 0o644)
	write(t, l.ws+"/a/b/beside", "beside\n", 0o644)
	res := l.wrap(t, sh(readOnly("{workspace}/a/b/keep"), `set -e; cat a/b/keep; mv a/b/beside a/moved; ln a/moved a/b/linked; mv a/b/linked out; echo new > a/b/new; rm a/b/new; mkdir a/b/d; rmdir a/b/d; cat out`))
	if res.code != 0 || res.stdout != "keep\nbeside\n" {
		t.Errorf("got %v", res)
	}
}

// TestStateIsPrivate: what pinfold keeps is its owner's alone.
func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"true"}}); res.code != 0 {
		t.Fatalf("got %v", res)
	}
	must(t, filepath.WalkDir(l.state, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && d.IsDir() && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
		return err
	}))
}

func TestRecordIsComplete(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	record := l.root + "/record"
	res := l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--record", record, "--execution", "e1", "--segment", "s1"}, argv: []string{"/bin/sh", "-c", "exit 3"}})
	if res.code != 3 {
		t.Fatalf("got %v", res)
	}
	var plan struct {
		Owner struct{ Execution, Segment string }
	}
	must(t, json.Unmarshal([]byte(read(t, record+"/plan.json")), &plan))
	info, err := os.Stat(record + "/plan.json")
	must(t, err)
	if fmt.Sprint(plan.Owner) != "{e1 s1}" || info.Mode().Perm() != 0o400 {
		t.Errorf("owner %v, mode %v", plan.Owner, info.Mode())
	}
	for _, name := range []string{"root", "exit"} {
		found, err := filepath.Glob(record + "/" + name + "*")
		must(t, err)
		if len(found) == 0 {
			t.Errorf("the record has no %s", name)
		}
	}
	refused(t, l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--record", record}, argv: ran()}), record)
}

// TestNothingAppearsInTheHome: a launch makes nothing there, and one that may
// write the home can't make the settings that the next launch would find.
func TestNothingAppearsInTheHome(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := listing(t, l.home)
	line := "mkdir -p .config/pinfold; echo '{}' > .config/pinfold/policy.json; echo '{}' > .config/pinfold/config.json; mv .config moved; true"
	for name, flags := range map[string][]string{
		"beside the workspace": {"--workspace", l.ws, "--state", l.state},
		"as the workspace":     {"--workspace", l.home, "--state", l.state},
	} {
		t.Run(name, func(t *testing.T) {
			res := l.wrap(t, launch{bare: true, dir: l.home, flags: flags, policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", line}})
			if diff := cmp.Diff(before, listing(t, l.home)); diff != "" || res.code != 0 {
				t.Errorf("the home changed (-before +after):\n%s\n%v", diff, res)
			}
		})
	}
}

// TestInsideItself: there is no boundary inside of a boundary, and whoever
// tries reads that, and nothing else.
func TestInsideItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	inner := func(args ...string) result {
		return l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--quiet"}, argv: append([]string{built.pinfold}, args...)})
	}
	for name, args := range map[string][]string{
		"wrap":            {"wrap", "--error-format", "json", "--", "true"},
		"another state":   {"wrap", "--error-format", "json", "--state", "/tmp/state", "--", "true"},
		"plan":            {"plan", "--error-format", "json", "--", "true"},
		"the outer state": {"wrap", "--error-format", "json", "--state", l.state, "--", "true"},
	} {
		res := inner(args...)
		var r struct{ Reason, Code, Why, Fix string }
		if err := json.Unmarshal([]byte(res.stderr), &r); err != nil || res.code != 125 || r.Reason != "sandbox_unavailable" || r.Code != "inside_pinfold" || r.Fix == "" {
			t.Errorf("%s: %v: got %v", name, err, res)
		}
	}
	if res := inner("wrap", "--", "true"); strings.Count(res.stderr, "\n") != 2 || !strings.HasPrefix(res.stderr, "pinfold: sandbox_unavailable (inside_pinfold)") {
		t.Errorf("a refusal of two lines is %v", res)
	}
	if res := inner("doctor"); res.code != 1 || !strings.Contains(res.stdout, "inside pinfold's own boundary") || strings.Contains(res.stdout, "can't be read") {
		t.Errorf("doctor: %v", res)
	}
}
