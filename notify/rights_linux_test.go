package notify_test

import (
	"os"
	"path/filepath"
	"testing"

	"pinfold/notify"
)

// What is closed to a command of root's, which has no capability, is closed
// to its connections too, and nothing of what stands there is told: the engine
// has root's. What the policy lists is reached wherever it lies.
func TestRootsRightsReachNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can have rights that its commands lack")
	}
	for _, all := range []bool{true, false} {
		dir := newSandbox(t).dir
		closed, open := filepath.Join(dir, "closed"), filepath.Join(dir, "open")
		must(t, os.Mkdir(closed, 0o700))
		must(t, os.Mkdir(open, 0o755))
		inside, listed := serve(t, closed+"/svc"), serve(t, closed+"/listed")
		private, public := serve(t, open+"/private"), serve(t, open+"/public")
		must(t, os.WriteFile(closed+"/file", nil, 0o644))
		must(t, os.Chmod(private.path, 0o600))
		must(t, os.Chmod(public.path, 0o666))
		const nobody = 65534
		for _, path := range []string{inside.path, listed.path, private.path, public.path, closed, open} {
			must(t, os.Chown(path, nobody, nobody))
		}
		s := newSandbox(t)
		s.o.AllSockets, s.o.Sockets = all, []notify.Socket{listed.listed(t)}
		got := results(s.run(t, "tour", inside.path, closed+"/missing", closed+"/file", closed+"/file/x", listed.path, private.path, public.path))
		want := map[string]string{
			inside.path: "EACCES", closed + "/missing": "EACCES", closed + "/file": "EACCES", closed + "/file/x": "EACCES",
			listed.path: "connected", private.path: "EACCES", public.path: "EACCES",
			"absolute": "connected", "link": "connected", "by directory": "connected", "by descriptor": "connected",
		}
		if all {
			want[public.path] = "connected"
		}
		for name, outcome := range want {
			if got[name] != outcome {
				t.Errorf("all %v: %s: %q, wanted %q", all, name, got[name], outcome)
			}
		}
		if n := inside.count() + private.count(); n > 0 || listed.count() != 1 {
			t.Errorf("all %v: %d connections, and %d to the one that is listed", all, n, listed.count())
		}
	}
}
