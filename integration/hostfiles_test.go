//go:build linux

package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHostWritesGuardedNames: what the host's own programs write under guarded
// names during a run is taken away, and none of it is lost, however they write.
func TestHostWritesGuardedNames(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	l := newLab(t)
	r := l.start(t, launch{policy: workspaceOnly(), flags: []string{"--record", l.root + "/rec"}, argv: []string{"sh", "-c", "echo ready; until [ -e end ]; do sleep 0.05; done"}})
	eventually(t, "it runs", func() bool { return strings.Contains(r.stdout.String(), "ready") })
	var want [][]byte
	for i := range 12 {
		text := bytes.Repeat(fmt.Appendf(nil, "%d ", i), 100_000)
		hostWrites(t, l.ws+"/.envrc", text, 1+i%3, 0)
		want = append(want, text)
	}
	slow := []byte("export A=1\nexport B=2\n")
	hostWrites(t, l.ws+"/.mcp.json", slow, 2, 300*time.Millisecond)
	must(t, os.Mkdir(l.ws+"/made", 0o700))
	write(t, l.ws+"/made/tasks.json", "{}", 0o600)
	late, err := os.Create(l.ws + "/made/late")
	must(t, err)
	defer late.Close()
	must(t, os.Rename(l.ws+"/made", l.ws+"/.vscode"))
	absent := func(name string) func() bool {
		return func() bool { _, err := os.Lstat(l.ws + "/" + name); return err != nil }
	}
	eventually(t, "it is taken away", absent(".vscode"))
	write(t, l.ws+"/end", "", 0o600)
	<-r.done
	_, err = late.WriteString("late\n")
	must(t, err)
	kept := allKept(t, l)
	for _, text := range append(want, slow, []byte("late\n"), []byte("{}")) {
		if !kept[string(text)] {
			t.Errorf("lost: %.20q…, %d bytes", text, len(text))
		}
	}
	if said := r.stderr.String(); !strings.Contains(said, "11 more") || !strings.Contains(said, ".pinfold-taken-") {
		t.Errorf("not said: %s", said)
	}
}

// hostWrites makes a file and writes it in some steps, with a rest between.
func hostWrites(t *testing.T, path string, text []byte, steps int, rest time.Duration) {
	t.Helper()
	eventually(t, "the name is free", func() bool { _, err := os.Lstat(path); return err != nil })
	f, err := os.Create(path)
	must(t, err)
	for i := range steps {
		_, err := f.Write(text[len(text)*i/steps : len(text)*(i+1)/steps])
		must(t, err)
		time.Sleep(rest) // what is tested is a writer that takes its time
	}
	must(t, f.Close())
}

// allKept are the contents of what was taken away, in the record and beside.
func allKept(t *testing.T, l *lab) map[string]bool {
	t.Helper()
	kept := map[string]bool{}
	beside, err := filepath.Glob(l.ws + "/.pinfold-taken-*")
	must(t, err)
	for _, top := range append(beside, l.root+"/rec/taken") {
		must(t, filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				kept[read(t, path)] = true
			}
			return err
		}))
	}
	return kept
}
