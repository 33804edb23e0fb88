package recover_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"pinfold/recover"
)

// TestAdoptWhileMending: the host goes on replacing, moving away and removing
// what is covered, and whenever one asks the launch is adoptable, at once.
func TestAdoptWhileMending(t *testing.T) {
	t.Parallel()
	r := startUnder(t, `"$@"; exit $?`, untilEOF, ".envrc", ".mcp.json", ".gitmodules")
	asked := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- replaceUntil(r.ws, asked) }()
	for range 100 {
		if v := prove(t, r); !v.Adoptable {
			t.Errorf("%+v", v)
			break
		}
	}
	close(asked)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".mcp.json", ".gitmodules"} {
		err := os.Rename(filepath.Join(r.ws, name), filepath.Join(r.ws, "moved"+name))
		if name == ".mcp.json" && err == nil {
			err = os.WriteFile(filepath.Join(r.ws, name), []byte("new"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if v := prove(t, r); !v.Adoptable {
			t.Errorf("%s moved away: %+v", name, v)
		}
	}
}

// replaceUntil renames a file over a covered one, time and again.
func replaceUntil(ws string, end <-chan struct{}) error {
	for {
		select {
		case <-end:
			return nil
		default:
		}
		file := filepath.Join(ws, "new")
		if err := os.WriteFile(file, []byte("y"), 0o600); err != nil {
			return err
		}
		if err := os.Rename(file, filepath.Join(ws, ".envrc")); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond) // so that there is something to mend again
	}
}

// TestCanaries: a record that doesn't say that everything was tried before the
// command ran proves nothing.
func TestCanaries(t *testing.T) {
	t.Parallel()
	r := start(t, untilEOF)
	if v := prove(t, r); !v.Adoptable { // waits for the line
		t.Fatalf("%+v", v)
	}
	file := filepath.Join(r.record, "journal")
	journal, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	held := regexp.MustCompile(`\d+ denied, \d+ read-only, \d+ writable, \d+ calls`)
	as := func(text string) []byte { return held.ReplaceAll(journal, []byte(text)) }
	for name, change := range map[string]struct{ to []byte }{
		"none":        {nil},
		"twice":       {bytes.Repeat(journal, 2)},
		"few paths":   {as("0 denied, 1 read-only, 1 writable, 9 calls")},
		"no calls":    {as("900 denied, 900 read-only, 1 writable, 0 calls")},
		"other words": {as("all denied")},
	} {
		if bytes.Equal(change.to, journal) {
			t.Fatalf("%s: the journal is as it was: %s", name, journal)
		}
		if err := os.WriteFile(file, change.to, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(*testing.T) { refutedBy(t, claim(r), recover.ProofCanaries, "") })
	}
	if err := os.WriteFile(file, journal, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := prove(t, r); !v.Adoptable {
		t.Errorf("after all: %+v", v)
	}
}
