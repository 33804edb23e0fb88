package recover

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSettleGivesUp: of a tree to which another process comes whenever one was
// looked at, nobody can tell, and that is said after some walks.
func TestSettleGivesUp(t *testing.T) {
	root, err := hold(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	var started []*exec.Cmd
	t.Cleanup(func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	start := func() error {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sleep", "1000")
		started = append(started, cmd)
		return cmd.Start()
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	for name, another := range map[string]func() error{"it settles": func() error { return nil }, "it doesn't": start} {
		tree := newTree()
		err = tree.settle(t.Context(), root, func(*process, []byte) error { return another() })
		tree.close()
		if name == "it settles" && err != nil || name != "it settles" && (!errors.Is(err, ErrUnclear) || !strings.Contains(err.Error(), "don't settle")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(started) > 3*maxWalks {
		t.Errorf("%d processes were looked at", len(started))
	}
}
