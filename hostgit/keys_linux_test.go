package hostgit_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/hostgit"
)

// onTerminal runs a program on a terminal of its own, where git pages what it
// shows and asks, and answers every question with the end of its input.
func (f *farm) onTerminal(env []string, argv ...string) {
	f.t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(f.t, err)
	defer ours.Close() //nolint:errcheck // a terminal
	must(f.t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	must(f.t, err)
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(f.t, err)
	cmd := exec.CommandContext(f.t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = f.top, env
	cmd.Stdout, cmd.Stderr = theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(f.t, cmd.Start())
	must(f.t, theirs.Close())
	_, err = io.Copy(io.Discard, ours) // EIO where the last one closes the terminal
	f.t.Logf("%v: %v, %v", argv, err, cmd.Wait())
}

// TestOnTerminal: neither a pager nor a filter of the repository's is run
// where git would, whatever the operator says of paging.
func TestOnTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, own string
		args     []string
	}{
		"core.pager":                  {"core.pager", "", []string{"log"}},
		"pager.log":                   {"pager.log", "", []string{"log"}},
		"pager.log of one who pages":  {"pager.log", "[pager]\n\tlog = true\n", []string{"log"}},
		"pager.log of one who counts": {"pager.log", "[pager]\n\tlog = 2\n", []string{"log"}},
		"interactive.diffFilter":      {"interactive.diffFilter", "", []string{"add", "-p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			f.env = append(f.env, "TERM=xterm", "PAGER=cat")
			f.write("file.txt", "x\n")
			must(t, os.WriteFile(filepath.Dir(f.top)+"/.gitconfig", []byte(c.own), 0o600))
			f.git("", "config", c.key, f.sprungTrap())
			g, err := hostgit.Prepare(t.Context(), f.top, c.args, f.env)
			must(t, err)
			f.onTerminal(g.Env, append([]string{g.Path}, g.Argv[1:]...)...)
			if got := f.sprung(); len(got) > 0 {
				t.Errorf("executed: %v", got)
			}
			f.onTerminal(f.env, append([]string{g.Path}, c.args...)...)
			if len(f.sprung()) == 0 {
				t.Error("plain git executes nothing either, so this shows nothing")
			}
		})
	}
}
