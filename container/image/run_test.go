package image_test

import (
	"os/exec"
	"testing"
)

func runs(t *testing.T, program string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: %v, %q", program, err, out)
	}
}
