package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"pinfold/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var full = event.Event{
	Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600)), Run: "r1", Kind: event.Network, Action: event.Denied,
	Target: "x.example:443", Address: "203.0.113.1", Rule: "x", Reason: "not_listed", Hint: "x.example:443", Via: "connect", PID: 7,
	Program: "/bin/x", Up: 1, Down: 2, Duration: 3, Count: 4,
}

func lines(t *testing.T, b *bytes.Buffer) []event.Event {
	t.Helper()
	var list []event.Event
	for line := range strings.Lines(b.String()) {
		var e event.Event
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

func TestWriterWritesLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := event.NewWriter(&b, event.Options{Run: "run-1"})
	w.Emit(full)
	w.Emit(event.Event{Kind: event.Path, Action: event.Denied, Target: "/a\nb\x00"})
	w.Emit(event.Event{Kind: event.Network, Action: event.Allowed, Target: "not at this level"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Emit(full) // after Close: nothing, and no panic
	got := lines(t, &b)
	if len(got) != 2 {
		t.Fatalf("got %d lines: %s", len(got), b.String())
	}
	want := full
	want.Time = full.Time.UTC()
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Error(d)
	}
	if got[1].Run != "run-1" || got[1].Time.IsZero() || got[1].Target != "/a\nb\x00" {
		t.Errorf("got %+v", got[1])
	}
}

func TestLevelAll(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := event.NewWriter(&b, event.Options{Level: event.LevelAll})
	w.Emit(event.Event{Kind: event.Network, Action: event.Allowed})
	w.Close()
	if got := lines(t, &b); len(got) != 1 || got[0].Action != event.Allowed {
		t.Errorf("got %+v", got)
	}
}

// last wants the last line to count what isn't there.
func last(t *testing.T, b *bytes.Buffer, sent int) {
	t.Helper()
	got := lines(t, b)
	e := got[len(got)-1]
	if e.Action != event.Dropped || e.Kind != event.Limit || e.Count != int64(sent-(len(got)-1)) {
		t.Errorf("the last of %d lines is %+v, want it to count %d", len(got), e, sent-(len(got)-1))
	}
}

func TestRateIsBounded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	now := time.Unix(1000, 0)
	w := event.NewWriter(&b, event.Options{MaxRate: 10, Now: func() time.Time { return now }})
	for range 100 {
		w.Emit(full)
	}
	now = now.Add(time.Second / 2) // five more
	for range 100 {
		w.Emit(full)
	}
	if w.Dropped() != 185 {
		t.Errorf("dropped %d, want 185", w.Dropped())
	}
	w.Close()
	if got := lines(t, &b); len(got) != 16 {
		t.Errorf("got %d lines, want 15 and the count", len(got))
	}
	last(t, &b, 200)
}

func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := event.NewWriter(&b, event.Options{MaxBytes: 2000, MaxRate: 1 << 20})
	for range 500 {
		w.Emit(full)
	}
	w.Close()
	if b.Len() > 2200 {
		t.Errorf("wrote %d bytes, want 2,000 and the last line", b.Len())
	}
	last(t, &b, 500)
}

// stuck is a destination that has stopped reading.
type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.release
	return len(p), nil
}

func TestEmitNeverBlocks(t *testing.T) {
	t.Parallel()
	s := stuck{make(chan struct{})}
	w := event.NewWriter(s, event.Options{MaxRate: 1 << 20})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				w.Emit(full)
			}
		})
	}
	wg.Wait()
	if w.Dropped() < 6000 {
		t.Errorf("dropped %d of 8,000, want all but a queue's worth", w.Dropped())
	}
	if err := w.CloseTimeout(10 * time.Millisecond); err == nil {
		t.Error("no error though nobody reads")
	}
	close(s.release)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrorIsReported(t *testing.T) {
	t.Parallel()
	w := event.NewWriter(failing{}, event.Options{})
	w.Emit(full)
	w.Emit(full)
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) || w.Dropped() != 2 {
		t.Errorf("got %v, dropped %d", err, w.Dropped())
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(event.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("event.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("event.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaTakesWhatIsWritten(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for _, e := range []event.Event{full, {Kind: event.Limit, Action: event.Dropped, Count: 9}, {Kind: event.Env, Action: event.Withheld, Target: "X"}} {
		line, err := event.Line(e)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestSchemaRefusesTheRest(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for _, text := range []string{
		`{}`, `[]`, `{"time":"2026-01-02T03:04:05Z","run":"r","kind":"network"}`,
		`{"time":"2026-01-02T03:04:05Z","run":"r","kind":"net","action":"denied"}`,
		`{"time":"2026-01-02T03:04:05Z","run":"r","kind":"network","action":"denied","more":1}`,
		`{"time":"yesterday","run":"r","kind":"network","action":"denied"}`,
		`{"time":"2026-01-02T03:04:05Z","run":"r","kind":"network","action":"denied","up":-1}`,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(v) == nil {
			t.Errorf("%s passes", text)
		}
	}
}

func denied(target, hint string) event.Event {
	return event.Event{Kind: event.Network, Action: event.Denied, Target: target, Reason: "not_listed", Hint: hint}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	var s event.Summary
	if s.Line() != "" {
		t.Errorf("got %q for nothing", s.Line())
	}
	s.Emit(event.Event{Kind: event.Network, Action: event.Allowed, Target: "fine:1"})
	s.Emit(event.Event{Kind: event.Env, Action: event.Withheld, Target: "TOKEN"})
	s.Emit(denied("x.example:443", "x.example:443"))
	s.Emit(event.Event{Kind: event.Network, Action: event.Denied, Target: "meta:80", Reason: "metadata_address"})
	s.Emit(denied("x.example:443", "x.example:443"))
	want := `blocked: x.example:443 ×2 (add "x.example:443" to network.allow), meta:80 (metadata_address)`
	if got := s.Line(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for i := range 1000 {
		s.Emit(denied(fmt.Sprintf("h%d:1", i), ""))
	}
	if got := s.Line(); !strings.HasSuffix(got, "and at least 251 more") || len(s.Blocked()) != 256 {
		t.Errorf("got %q, %d kept", got, len(s.Blocked()))
	}
}

func TestFan(t *testing.T) {
	t.Parallel()
	var a, b event.Summary
	event.Fan(&a, nil, &b).Emit(denied("x:1", ""))
	if len(a.Blocked()) != 1 || len(b.Blocked()) != 1 {
		t.Error("an event got lost")
	}
}
