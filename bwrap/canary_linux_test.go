package bwrap_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// A claim of the plan that doesn't hold inside refuses the launch by name, and
// the command doesn't run.
func TestRunCanaryFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		undo func(l *bwrap.Launch)
		why  string
	}{
		"control": {func(*bwrap.Launch) {}, ""},
		"the host's network": {func(l *bwrap.Launch) {
			l.Args = slices.DeleteFunc(l.Args, func(a string) bool { return a == "--unshare-net" })
		}, "can be reached"},
		"a rule less": {func(l *bwrap.Launch) {
			l.Setup.Calls = append(l.Setup.Calls, wire.Call{Name: "getpid", Number: unix.SYS_GETPID, Errno: uint32(unix.EPERM)})
		}, "lets getpid through"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			mkdir(t, dir+"/w")
			in := command("echo ran > " + dir + "/w/ran")
			in.Entries = []guard.Entry{entry(t, dir+"/w", guard.ReadWrite)}
			l := realLaunch(t, in)
			c.undo(l)
			r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, "")
			if c.why == "" {
				if err == nil {
					_, err = r.Wait()
				}
				if b, e := os.ReadFile(dir + "/w/ran"); err != nil || e != nil || string(b) != "ran\n" {
					t.Errorf("got %v, %q, %v", err, b, e)
				}
				return
			}
			f, ok := errors.AsType[*policy.Refusal](err)
			if !ok || f.Reason != policy.Unavailable || f.Code != "canary_failed" || !strings.Contains(f.Why, c.why) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(dir + "/w/ran"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the command ran: %v", err)
			}
		})
	}
}
