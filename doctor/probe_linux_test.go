package doctor_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"pinfold/doctor"
)

// TestLive: on a machine where bubblewrap really works the probes say so.
// The control is bubblewrap itself, run by hand.
func TestLive(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true").Run(); err != nil {
		t.Skipf("bubblewrap does not work here: %v", err)
	}
	l := &doctor.Live{Path: os.Getenv("PATH")}
	if b, err := l.Bubblewrap(t.Context()); err != nil || b.Path == "" {
		t.Errorf("bubblewrap: %+v, %v", b, err)
	}
	for _, kinds := range [][]string{{"user"}, {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}, {"user", "pid", "proc"}} {
		if err := l.Namespaces(t.Context(), kinds...); err != nil {
			t.Errorf("%v: %v", kinds, err)
		}
	}
	for _, name := range []string{"openat2", "pidfd_open", "pidfd_getfd", "seccomp_errno", "seccomp_kill_process", "seccomp_user_notif", "close_range", "unshare", "clone", "mount"} {
		if err := l.Syscall(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.LandlockABI(); err != nil {
		t.Error(err)
	}
}

// TestLiveRefused: a bubblewrap that exits with an error is a conclusive no.
func TestLiveRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fake := "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0;; *) exit 1;; esac\n"
	if err := os.WriteFile(dir+"/bwrap", []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	l := &doctor.Live{Path: dir}
	if _, err := l.Bubblewrap(t.Context()); err != nil {
		t.Skipf("a program in %s is not trusted here: %v", dir, err)
	}
	if err := l.Namespaces(t.Context(), "user"); !errors.Is(err, doctor.ErrNotThere) {
		t.Errorf("got %v", err)
	}
}
