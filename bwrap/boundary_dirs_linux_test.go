package bwrap_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard"
)

// A whole directory that the host replaces or takes away is covered again,
// with what is kept within it, and what was made to hang a cover on goes with
// the run.
func TestMendDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, left string }{
		"made anew":            {change: "rm -r $d; mkdir -p $d/in; echo new >$d/f; echo secret >$d/in/denied"},
		"moved, and made anew": {change: "mv $d $d.old; mkdir $d; echo new >$d/f"},
		"renamed over":         {change: "mkdir n; echo new >n/f; rm -r $d; mv -T n $d"},
		"a file instead":       {change: "rm -r $d; echo new >$d"},
		"moved away":           {change: "mv $d elsewhere", left: "elsewhere"},
		"removed":              {change: "rm -r $d"},
	} {
		for _, d := range []string{"denied", "fixed"} {
			t.Run(name+"/"+d, func(t *testing.T) {
				t.Parallel()
				mendDirectory(t, d, c.change, c.left)
			})
		}
	}
}

func mendDirectory(t *testing.T, d, change, left string) {
	t.Helper()
	dir := lab(t)
	w := dir + "/w"
	file(t, w+"/denied/f", "old")
	file(t, w+"/fixed/f", "old")
	file(t, w+"/fixed/in/denied", "secret")
	in := command("cd " + w + "; sleep 1000 & echo ready; read x; cat denied/f fixed/in/denied; ls denied; " +
		"echo y >" + d + "/g; echo y >>" + d + "/f; mv " + d + " x; rmdir " + d + "; mkdir " + d + "; echo y >" + d + "; kill $!; exit 7")
	in.Entries = []guard.Entry{
		entry(t, w, guard.ReadWrite), entry(t, w+"/denied", guard.Deny),
		entry(t, w+"/fixed", guard.ReadOnly), entry(t, w+"/fixed/in/denied", guard.Deny),
	}
	events := newHeard()
	p, end := begin(t, realLaunch(t, in), bwrap.StartOptions{State: dir + "/state", Events: events, Notice: func(s string) { t.Log(s) }})
	host := exec.Command("sh", "-ec", change)
	host.Dir, host.Env = w, append(os.Environ(), "d="+d)
	if out, err := host.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for e := events.next(t); e.Target != w+"/"+d; e = events.next(t) {
		if e.Kind != event.Boundary || e.Reason != "cover_restored" {
			t.Fatalf("%+v", e)
		}
	}
	gone := change == "rm -r $d" || left != ""
	before := content(w, d, gone)
	if e := end(); e.Code != 7 {
		t.Errorf("%+v", e)
	}
	<-p.Done()
	if got := content(w, d, gone); got != before {
		t.Errorf("inside, %q became %q", before, got)
	}
	if _, err := os.Lstat(w + "/" + d); (err != nil) != gone {
		t.Errorf("%s is gone: %v, wanted %v", d, err != nil, gone)
	}
	if left != "" {
		if _, err := os.Lstat(w + "/" + left + "/f"); err != nil {
			t.Error(err)
		}
	}
}

// content is what the host sees at a covered path, where it has left anything.
func content(w, d string, gone bool) string {
	if gone {
		return ""
	}
	out, _ := exec.Command("sh", "-c", "cd "+w+" && find "+d+" | sort && cat "+d+" "+d+"/f 2>&-").CombinedOutput()
	return string(out)
}

// A directory that somebody inside can go on writing is not covered: the run
// ends. Here the command follows it with a descriptor as soon as it sees it.
func TestHeldDirectory(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	w := dir + "/w"
	file(t, w+"/fixed/f", "old")
	file(t, w+"/linked/f", "new")
	must(t, os.Link(w+"/linked/f", w+"/alias"))
	in := command("echo ready; read x; sleep 1000")
	in.Entries = []guard.Entry{entry(t, w, guard.ReadWrite), entry(t, w+"/fixed", guard.ReadOnly)}
	events := newHeard()
	p, _ := begin(t, realLaunch(t, in), bwrap.StartOptions{State: dir + "/state", Events: events, Notice: func(s string) { t.Log(s) }})
	began := time.Now()
	must(t, os.RemoveAll(w+"/fixed"))
	must(t, os.Rename(w+"/linked", w+"/fixed"))
	e, err := p.Wait()
	must(t, err)
	if e.Code != bwrap.CodeBoundaryLost || e.Reason != bwrap.BoundaryLost {
		t.Errorf("%+v after %v", e, time.Since(began))
	}
	if e := events.next(t); e.Kind != event.Boundary || e.Reason != "cover_detached" {
		t.Errorf("%+v", e)
	}
}
