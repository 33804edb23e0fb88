//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBarredNames: where this user can make nothing, a name that isn't there
// needs no cover; should somebody else make it during the run, that ends.
func TestBarredNames(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	l := newLab(t)
	barred := "/opt"
	as := []string(nil)
	if os.Geteuid() == 0 {
		barred, as = l.root+"/theirs", []string{"--user", "nobody", "--state", l.root + "/their-state"}
		mkdir(t, barred)
		mkdir(t, l.root+"/their-state")
		if out, err := exec.Command("chown", "nobody:", l.root+"/their-state").CombinedOutput(); err != nil {
			t.Fatalf("chown: %v: %s", err, out)
		}
		must(t, os.Chmod(l.root+"/their-state", 0o700))
		must(t, os.Chmod(l.root, 0o711))
		must(t, os.Chmod(barred, 0o755))
	}
	var st unix.Stat_t
	if err := unix.Stat(barred, &st); err != nil || int(st.Uid) != 0 {
		t.Skipf("%s isn't root's: %v", barred, err)
	}
	at := filepath.Join(barred, "not-there")
	for name, p := range map[string]doc{
		"read_only": {"write": []string{barred}, "read_only": []string{at}},
		"denied":    {"write": []string{barred}, "read": doc{"deny": []string{at}}},
	} {
		flags := append([]string{"--workspace", barred}, as...)
		script := "mkdir '" + at + "' 2>/dev/null || echo refused"
		res := l.wrap(t, launch{bare: true, dir: "/", flags: flags, policy: p, argv: []string{"/bin/sh", "-c", script}})
		if res.code != 0 || res.stdout != "refused\n" {
			t.Errorf("%s: %v", name, res)
		}
		absent(at)(t, l)
		if os.Geteuid() != 0 {
			continue
		}
		r := l.start(t, launch{bare: true, dir: "/", flags: flags, policy: p, argv: []string{"/bin/sh", "-c", "echo ready; sleep 100"}})
		eventually(t, "it runs", func() bool { return strings.Contains(r.stdout.String(), "ready") })
		mkdir(t, at)
		<-r.done
		if code := r.ProcessState.ExitCode(); code != 123 || !strings.Contains(r.stderr.String(), "not-there") {
			t.Errorf("%s: the host makes it: exit %d: %s", name, code, r.stderr.String())
		}
		must(t, os.Remove(at))
	}
}

// TestClosedDirectories: what its owner can open again is no bar.
func TestClosedDirectories(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	l := newLab(t)
	if os.Geteuid() == 0 {
		t.Skip("nothing is closed to root")
	}
	mkdir(t, l.ws+"/d")
	must(t, os.Chmod(l.ws+"/d", 0o555))
	res := l.wrap(t, launch{policy: doc{"write": []string{"{workspace}"}, "read_only": []string{"{workspace}/d/x"}}, argv: ran()})
	refused(t, res, "cannot_cover", "chmod u+wx")
}
