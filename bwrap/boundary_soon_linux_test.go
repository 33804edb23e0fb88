package bwrap_test

import (
	"os"
	"os/exec"
	"testing"

	"pinfold/bwrap"
	"pinfold/guard"
)

// Whatever a bubblewrap does with the descriptor of its filter, the boundary is
// looked at as it is when the command starts, and watched.
func TestBoundaryOfOddBubblewraps(t *testing.T) {
	t.Parallel()
	// The filter is behind the standard streams, the stub's setup and its
	// socket, the command's standard error, and the last of the data.
	for name, script := range map[string]string{
		"keeps it open":  `sleep 1000 4<&- & echo $! >"$0.pid"; exec "$BWRAP" "$@"`,
		"closes it soon": `cat <&7 >"$0.filter"; exec 7<"$0.filter"; exec "$BWRAP" "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			w := dir + "/w"
			file(t, w+"/denied", "secret")
			in := command("echo ready; read x; cat " + w + "/denied; exit 7")
			in.Entries = []guard.Entry{entry(t, w, guard.ReadWrite), entry(t, w+"/denied", guard.Deny)}
			l := realLaunch(t, in)
			tool := dir + "/bwrap"
			text := "#!/bin/sh\nBWRAP=" + l.Plan.Tool.Path + "\n" + script + "\n"
			must(t, os.WriteFile(tool, []byte(text), 0o755)) //nolint:gosec // a program
			l.Plan.Tool.Path = tool
			events := newHeard()
			_, end := begin(t, l, bwrap.StartOptions{State: dir + "/state", Events: events, Notice: func(s string) { t.Log(s) }})
			must(t, exec.Command("sh", "-ec", "echo new >"+w+"/n; mv "+w+"/n "+w+"/denied").Run())
			if e := events.next(t); e.Target != w+"/denied" || e.Reason != "cover_restored" {
				t.Errorf("%+v", e)
			}
			if e := end(); e.Code != 7 {
				t.Errorf("%+v", e)
			}
			_ = exec.Command("sh", "-c", `kill "$(cat "$0")"`, tool+".pid").Run() //nolint:gosec // the test's own
		})
	}
}
