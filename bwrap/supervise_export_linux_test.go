package bwrap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// WriteLease is what a run leaves that was killed before it could note what
// it had made.
func WriteLease(t *testing.T, state, path string, intent time.Time) {
	t.Helper()
	b, err := json.Marshal(note{Path: path, Dir: true, Intent: intent.UnixNano()})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, leaseDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, leaseName(path)), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The rest is what the tests try.
var (
	ParseStat    = func(b []byte) error { _, err := parseStat(b); return err }
	ParseStatus  = func(s string) error { _, err := parseStatus(s); return err }
	JoinKeyring  = joinKeyring
	FailureError = failureError
	FirstLines   = firstLines
	TakeListener = takeListener
	Unpack       = func(body, oob []byte, flags int) error {
		p, err := unpack(body, oob, flags)
		if err == nil {
			p.close()
		}
		return err
	}
)
