package image

import (
	"io"
	"testing"
)

// TestTail: a message is one line, and repeats nothing that was shown.
func TestTail(t *testing.T) {
	t.Parallel()
	const says = "Step 1/2 : FROM scratch\n ---> \nStep 2/2 : RUN false\n"
	for name, tc := range map[string]struct {
		shown io.Writer
		says  string
		want  string
	}{
		"not shown": {nil, says, "; it said last: Step 1/2 : FROM scratch /  --->  / Step 2/2 : RUN false"},
		"coloured":  {nil, "\x1b[91mx: \x1b[0m\x1b[1;31mnot found\n\x1b[0mRemoving [91m\n", "; it said last: x: not found / Removing [91m"},
		"shown":     {io.Discard, says, ""},
		"silent":    {nil, "\n", ""},
	} {
		last := &tail{w: tc.shown}
		if _, err := last.Write([]byte(tc.says)); err != nil {
			t.Fatal(err)
		}
		if got := last.quote(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
