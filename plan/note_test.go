package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold/plan"
)

// noted has what notes hold: paths, in lists and as names too.
type noted struct {
	Path  string            `json:"path"`
	List  []string          `json:"list"`
	Names map[string]string `json:"names"`
	Ino   uint64            `json:"ino"`
	For   time.Duration     `json:"for"`
}

// Whatever bytes a path is made of come back, and no two are one.
func TestNotesHoldAnyPath(t *testing.T) {
	t.Parallel()
	// What a path, and an argument, can't hold is the NUL byte alone.
	text := rapid.Map(rapid.SliceOf(rapid.ByteRange(1, 255)), func(b []byte) string { return string(b) })
	rapid.Check(t, func(rt *rapid.T) {
		in := noted{
			Path: text.Draw(rt, "path"), List: rapid.SliceOfN(text, 1, 3).Draw(rt, "list"),
			Names: rapid.MapOfN(text, text, 1, 3).Draw(rt, "names"),
			Ino:   rapid.Uint64().Draw(rt, "ino"), For: time.Duration(rapid.Int64().Draw(rt, "for")),
		}
		b, err := plan.EncodeNote(in)
		if err != nil {
			rt.Fatal(err)
		}
		var out noted
		if err := plan.DecodeNote(b, &out); err != nil {
			rt.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(in, out); d != "" {
			rt.Error(d)
		}
	})
}

// What was noted by encoding/json can be read, with the padding of a lease.
func TestNotesOfBefore(t *testing.T) {
	t.Parallel()
	want := noted{Path: "/w/ü\n\"", List: []string{"/a", ""}, Names: map[string]string{"/p": "x"}, Ino: 1<<64 - 1, For: time.Hour}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"as it was": string(b), "padded": string(b) + "   ", "of a later version": `{"later":{"x":1},` + string(b[1:])} {
		var got noted
		if err := plan.DecodeNote([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	var got noted
	if err := plan.DecodeNote([]byte(`{"list":null,"names":null}`), &got); err != nil {
		t.Error(err)
	}
	if err := plan.DecodeNote([]byte(`{"path":"`), &got); err == nil {
		t.Error("half a note can be read")
	}
}
