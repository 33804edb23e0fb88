//go:build linux

package integration_test

import (
	"os"
	"testing"
)

// TestWorkspaceNotUTF8: what a launch makes in a workspace whose path isn't
// UTF-8 goes away with it, and so does what was planted there in a run that
// was killed.
func TestWorkspaceNotUTF8(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ws = l.root + "/\xfd"
	mkdir(t, l.ws)
	none := func(when string) {
		t.Helper()
		if list, err := os.ReadDir(l.ws); err != nil || len(list) > 0 {
			t.Errorf("%s, there is %v: %v", when, list, err)
		}
	}
	missing := doc{"write": []string{"{workspace}"}, "read": doc{"deny": []string{"{workspace}/no"}}, "read_only": []string{"{workspace}/ro"}}
	res := l.wrap(t, launch{policy: missing, argv: []string{"sh", "-c", "ls; ! mkdir no/x 2>&- && ! mkdir ro/x 2>&- && echo held"}})
	if res.code != 0 || res.stdout != "no\nro\nheld\n" {
		t.Errorf("nothing was covered: the test shows nothing: %v", res)
	}
	none("after a normal end")

	r := l.start(t, launch{policy: missing, argv: []string{"sh", "-c", "touch " + l.run + "/covered; sleep 60"}})
	r.await(t, l.run+"/covered")
	must(t, r.Process.Kill())
	<-r.done
	if _, err := os.Lstat(l.ws + "/ro"); err != nil {
		t.Errorf("nothing was left: the test shows nothing: %v", err)
	}
	left := false
	for round := 0; round < 5 && !left; round++ {
		left = l.killedBesideAName(t)
	}
	if !left {
		t.Fatal("nothing was left: the test shows nothing")
	}
	res = l.direct(t, launch{argv: []string{built.pinfold, "reap", "--state", l.state}})
	if res.code != 0 {
		t.Errorf("%v", res)
	}
	none("after runs that were killed")
}
