package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

func TestParseConfig(t *testing.T) {
	t.Parallel()
	text := `{"defaults": {"memory": "1g", "timeout": "1h"}, "ceilings": {"cpus": 4}, "engine": "podman", "state": "~/.pinfold",}`
	got, err := policy.ParseConfig([]byte(text), "c.json")
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Config{
		Defaults: policy.Limits{Memory: 1 << 30, Timeout: time.Hour}, Ceilings: policy.Limits{CPUs: 4}, Engine: "podman",
		State: &policy.PathRule{Text: "~/.pinfold", Source: "state"},
	}
	if diff := cmp.Diff(want, got, samePlaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		`{"ceiling": {}}`:          `c.json:1:2: cannot use ceiling: there is no such field; did you mean "ceilings"?`,
		`{"state": "{workspace}"}`: `c.json:1:11: cannot use state: "{workspace}": it is neither absolute nor in the home`,
		`{"state": "rel"}`:         `c.json:1:11: cannot use state: "rel": it is relative; write "./rel" for a path beside the file it stands in, or "{workspace}/rel"`,
		`{"write": ["/"]}`:         `c.json:1:2: cannot use write: there is no such field`,
	} {
		if _, err := policy.ParseConfig([]byte(text), "c.json"); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
}

func TestConfigOver(t *testing.T) {
	t.Parallel()
	user := policy.Config{Defaults: policy.Limits{PIDs: 10}, Ceilings: policy.Limits{PIDs: 500, Memory: 5}, Engine: "podman"}
	machine := policy.Config{
		Defaults: policy.Limits{PIDs: 20, Files: 30}, Ceilings: policy.Limits{PIDs: 100, Memory: 9, CPUs: 2}, Engine: "docker",
		State: &policy.PathRule{Text: "/var/lib/pinfold"},
	}
	want := policy.Config{
		Defaults: policy.Limits{PIDs: 10, Files: 30}, Ceilings: policy.Limits{PIDs: 100, Memory: 5, CPUs: 2}, Engine: "podman",
		State: &policy.PathRule{Text: "/var/lib/pinfold"},
	}
	if diff := cmp.Diff(want, user.Over(machine)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(machine, policy.Config{}.Over(machine)); diff != "" {
		t.Errorf("nothing over something (-want +got):\n%s", diff)
	}
}

func TestConfigApply(t *testing.T) {
	t.Parallel()
	c := policy.Config{
		Defaults: policy.Limits{PIDs: 50, Memory: 100, Timeout: time.Hour},
		Ceilings: policy.Limits{PIDs: 100, Memory: 60, CPUs: 2, IdleTimeout: time.Minute},
	}
	got, err := c.Apply(policy.Limits{PIDs: 100, Files: 7})
	want := policy.Limits{PIDs: 100, Files: 7, Memory: 60, CPUs: 2, Timeout: time.Hour, IdleTimeout: time.Minute}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	all := policy.Limits{CPUs: 1, Memory: 1, PIDs: 1, Files: 1, FileSize: 1, Tmp: 1, Timeout: 1, IdleTimeout: 1}
	for name, l := range map[string]policy.Limits{
		"cpus": {CPUs: 1.1}, "memory": {Memory: 2}, "pids": {PIDs: 2}, "files": {Files: 2}, "file_size": {FileSize: 2},
		"tmp": {Tmp: 2}, "timeout": {Timeout: 2}, "idle_timeout": {IdleTimeout: 2},
	} {
		_, err := policy.Config{Ceilings: all}.Apply(l)
		r, ok := errors.AsType[*policy.Refusal](err)
		if !ok || r.Subject != "limits."+name || r.Code != "limit_above_ceiling" || !errors.Is(err, policy.ErrDenied) {
			t.Errorf("%s above its ceiling: %v", name, err)
		}
	}
}

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	parsed, err := policy.Parse([]byte(`{"write": ["{workspace}"]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parsed, policy.BuiltIn(), samePlaces); diff != "" {
		t.Errorf("(-parsed +built in):\n%s", diff)
	}
}
