package bwrap_test

import (
	"errors"
	"os"
	"testing"

	"pinfold/bwrap"
	"pinfold/policy"
)

// A directory as a standard stream is a way to every file of the host: the
// mounts inside don't lie on it.
func TestDirectoryAsStreamIsRefused(t *testing.T) {
	t.Parallel()
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, s := range map[string]bwrap.Streams{"input": {Stdin: dir}, "output": {Stdout: dir}, "error": {Stderr: dir}} {
		p, err := bwrap.Start(t.Context(), realLaunch(t, command("exit 0")), bwrap.StartOptions{Streams: s})
		if err == nil {
			_, _ = p.Wait()
		}
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "stream_is_directory" {
			t.Errorf("standard %s: got %v", name, err)
		}
	}
	p, err := bwrap.Start(t.Context(), realLaunch(t, command("exit 0")), bwrap.StartOptions{})
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Errorf("control: %+v, %v", e, err)
	}
}
