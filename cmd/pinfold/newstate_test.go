package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

// TestNewStateIsTakenAway: by a refusal for where it lies, and only what the
// launch made.
func TestNewStateIsTakenAway(t *testing.T) {
	t.Parallel()
	unsafe := &policy.Refusal{Reason: policy.Denied, Code: "state_unsafe"}
	all := []string{"run/", "containers/stub-1", "bubblewrap.json", "denied-trees.json"}
	for name, c := range map[string]struct {
		before, made []string
		why          error
		want         []string
	}{
		"all of it":                   {nil, all, fmt.Errorf("joined: %w", unsafe), nil},
		"not in another end":          {nil, []string{"run/"}, errors.New("another"), []string{"a", "a/state", "a/state/run"}},
		"not in success":              {nil, []string{"run/"}, nil, []string{"a", "a/state", "a/state/run"}},
		"not what was there":          {[]string{"a/state/run/", "a/state/denied-trees.json"}, []string{"bubblewrap.json"}, unsafe, []string{"a", "a/state", "a/state/denied-trees.json", "a/state/run"}},
		"not what others made":        {nil, append(slices.Clone(all), "trust/", "run/1/"), unsafe, []string{"a", "a/state", "a/state/run", "a/state/run/1", "a/state/trust"}},
		"not the directories above":   {[]string{"a/"}, all, unsafe, []string{"a"}},
		"not another container's own": {nil, []string{"containers/x"}, unsafe, []string{"a", "a/state", "a/state/containers", "a/state/containers/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for _, at := range c.before {
				makeAt(t, filepath.Join(top, at), at)
			}
			p := &program{state: filepath.Join(top, "a/state")}
			n, state, err := p.makeState()
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range c.made {
				makeAt(t, filepath.Join(state, at), at)
			}
			if err := n.end(c.why); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, namesBeneath(t, top)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// makeAt makes a directory where name ends with a slash, else a file.
func makeAt(t *testing.T, path, name string) {
	t.Helper()
	dir := filepath.Dir(path)
	if name[len(name)-1] == '/' {
		dir = path
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && dir != path {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func namesBeneath(t *testing.T, top string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
