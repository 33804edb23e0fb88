package persist_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A directory that can't be listed still lets programs at what is in it by
// name: the owner took only his right to read away.
func TestUnlistedDirectories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := t.TempDir()
	git(t, root, "init", "-q")
	tree(t, root, map[string]string{"before/.envrc": "a", "shut/.envrc": "a", "sub/.envrc": "a"})
	known := placesIn(t, root)
	do(t, os.Chmod(root+"/before", 0o311), os.Chmod(root+"/shut", 0o600))
	t.Cleanup(func() {
		for _, dir := range []string{"/before", "/shut", "/sub", "/.git/hooks"} {
			_ = os.Chmod(root+dir, 0o755)
		}
	})
	w := begun(t, root)
	w.Places = known
	tree(t, root, map[string]string{"sub/.envrc": "b", ".git/hooks/post-checkout": "x"})
	do(t, os.Chmod(root+"/sub", 0o311), os.Chmod(root+"/.git/hooks", 0o300))
	if b, err := os.ReadFile(root + "/sub/.envrc"); string(b) != "b" {
		t.Fatalf("control: %q, %v", b, err)
	}
	r := w.Report([]string{root}, budget)
	got := findings(root, r)
	slices.Sort(got)
	want := []string{"changed .git/hooks: can't be listed", "changed sub: can't be listed"}
	if diff := cmp.Diff(want, got); diff != "" || !r.Partial { // of before/ nobody can tell
		t.Errorf("partial %v: %s", r.Partial, diff)
	}
}
