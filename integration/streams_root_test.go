//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// chmodStreams gives each standard stream another mode and another time, by its
// descriptor and by its name in /proc, and says what happened to the first.
const chmodStreams = `
import os, sys
for f in (0, 1, 2):
    for where in (f, "/proc/self/fd/%d" % f):
        for change in (lambda: os.chmod(where, 0o600), lambda: os.utime(where, (1, 1))):
            try: change(); r = "CHANGED"
            except OSError as e: r = os.strerror(e.errno)
            open("result", "a").write("%s %s\n" % (where, r))
`

// TestDeviceStreams: root's own /dev/null, which cron and systemd hand on, keeps
// its mode and its time.
func TestDeviceStreams(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("an ordinary user owns no device")
	}
	l := newLab(t)
	for _, control := range []bool{true, false} {
		null := filepath.Join(l.root, "null")
		_ = os.Remove(null)
		must(t, unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		must(t, os.Chmod(null, 0o666))
		before := stateOf(t, null)
		argv := []string{"python3", "-c", chmodStreams}
		if !control {
			argv = append([]string{built.pinfold, "wrap", "--quiet", "--state", l.state, "--"}, argv...)
		}
		f, err := os.OpenFile(null, os.O_RDWR, 0)
		must(t, err)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = l.ws, l.env(), f, f, f
		err = cmd.Run()
		must(t, f.Close())
		result := read(t, filepath.Join(l.ws, "result"))
		must(t, os.Remove(filepath.Join(l.ws, "result")))
		switch changed := stateOf(t, null) != before; {
		case control && !changed:
			t.Errorf("nothing changes without a sandbox, so it proves nothing: %s", result)
		case !control && (changed || err != nil || strings.Contains(result, "CHANGED") || strings.Count(result, "\n") != 12):
			t.Errorf("%v, changed %v:\n%s", err, changed, result)
		}
	}
}

func stateOf(t *testing.T, path string) [2]int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no stat")
	}
	return [2]int64{int64(st.Mode), time.Unix(st.Mtim.Unix()).UnixNano()}
}
