package plan_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// fullResult has every field set: a new one that isn't shows as missing in
// the comparison below.
func fullResult() plan.Result {
	captured := &plan.Captured{Encoding: "utf-8", Data: "a", Bytes: 3, Truncated: true, Omitted: 1, Tail: "c"}
	return plan.Result{
		Version: plan.ResultVersion, Run: "r", Tier: "process", Backend: "bwrap", Reason: "oom", Exit: 137,
		Signal: "SIGKILL", Stop: "term", Phase: plan.PhaseRun,
		Phases: []plan.PhaseResult{{Name: plan.PhaseRun, Began: time.Unix(1, 0).UTC(), DurationMS: 1.5}}, Attempts: 2,
		Refusal: &policy.Refusal{Reason: policy.Denied, Code: "c", Subject: "s", Rule: "r", Why: "w", Fix: "f"},
		NotRun:  &plan.NotRun{Code: "not_found", Why: "w"},
		Usage:   &plan.Usage{Source: "cgroup", CPUMS: 1, PeakMemory: 2, Processes: 3},
		Limits:  []plan.LimitResult{{Name: "memory", Value: "64m", Hits: 1}},
		Network: &plan.TrafficResult{Up: 1, Down: 2},
		Blocked: []plan.BlockedResult{{Target: "t:1", Reason: "not_listed", Count: 2, Allow: "t:1"}}, MoreBlocked: 7,
		Persistence: []plan.PersistenceResult{{Path: "/w/.envrc", Change: "new", What: "direnv"}}, PersistencePartial: true,
		Layers: []plan.Layer{{Name: "seccomp", State: "on"}},
		Owner:  guard.Owner{Execution: "e", Segment: "s"}, Record: "/r", Digest: "sha256:1",
		Stdout: captured, Stderr: captured,
	}
}

func resultSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(plan.ResultSchema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decoded(t *testing.T, r plan.Result) map[string]any {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(b), "\n") != 1 || !strings.HasSuffix(string(b), "\n") {
		t.Errorf("a result is one line, got %q", b)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestResultMatchesItsSchema(t *testing.T) {
	t.Parallel()
	schema := resultSchema(t)
	full := fullResult()
	for i := range reflect.TypeFor[plan.Result]().NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("the full result has no %s", reflect.TypeFor[plan.Result]().Field(i).Name)
		}
	}
	v := decoded(t, full)
	if err := schema.Validate(v); err != nil {
		t.Errorf("the full result: %v", err)
	}
	least := plan.Result{Version: plan.ResultVersion, Tier: "process", Reason: "refused", Exit: 125, Phase: plan.PhasePlan, Phases: []plan.PhaseResult{}}
	if err := schema.Validate(decoded(t, least)); err != nil {
		t.Errorf("the least result: %v", err)
	}
	v["surprise"] = 1
	if schema.Validate(v) == nil {
		t.Error("an unknown member passes")
	}
	v = decoded(t, full)
	v["reason"] = "bored"
	if schema.Validate(v) == nil {
		t.Error("an unknown reason passes")
	}
}

func TestCaptured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head, tail string
		n          int64
		want       plan.Captured
	}{
		"nothing":            {"", "", 0, plan.Captured{Encoding: "utf-8"}},
		"all":                {"ab", "cd", 4, plan.Captured{Encoding: "utf-8", Data: "abcd", Bytes: 4}},
		"all, cut in two":    {"h\xc3", "\xa9", 3, plan.Captured{Encoding: "utf-8", Data: "hé", Bytes: 3}},
		"truncated":          {"ab", "yz", 9, plan.Captured{Encoding: "utf-8", Data: "ab", Tail: "yz", Bytes: 9, Truncated: true, Omitted: 5}},
		"gap in a character": {"a\xe2\x82", "\xac!", 100, plan.Captured{Encoding: "utf-8", Data: "a", Tail: "!", Bytes: 100, Truncated: true, Omitted: 98}},
		"not text":           {"\xff\xfe", "", 2, plan.Captured{Encoding: "base64", Data: "//4=", Bytes: 2}},
		"a NUL":              {"a\x00", "", 2, plan.Captured{Encoding: "base64", Data: "YQA=", Bytes: 2}},
		"text, then none":    {"ab", "\xff\xff\xff\xff\xff", 9, plan.Captured{Encoding: "base64", Data: "YWI=", Tail: "//////8=", Bytes: 9, Truncated: true, Omitted: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(&c.want, plan.NewCaptured([]byte(c.head), []byte(c.tail), c.n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
