package policy_test

import (
	"errors"
	"strings"
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
		File:  "c.json",
	}
	if diff := cmp.Diff(want, got, samePlaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		`{"ceiling": {}}`:          `c.json:1:2: cannot use ceiling: there is no such field; did you mean "ceilings"?`,
		`{"state": "{workspace}"}`: `c.json:1:11: cannot use state: "{workspace}": it is neither absolute nor in the home; write the whole path, or start with ~/`,
		`{"state": "rel"}`:         `c.json:1:11: cannot use state: "rel": it is neither absolute nor in the home; write the whole path, or start with ~/`,
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

// TestCeilingIsNamed: with the file that is to be changed.
func TestCeilingIsNamed(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]struct {
		limits policy.Limits
		why    string
	}{
		`{"ceilings": {"cpus": 1.5}}`:         {policy.Limits{CPUs: 2}, "cannot grant limits.cpus: the settings of this machine allow 1.5 at most"},
		`{"ceilings": {"memory": "3072m"}}`:   {policy.Limits{Memory: 4 << 30}, "cannot grant limits.memory: the settings of this machine allow 3g at most"},
		`{"ceilings": {"tmp": 1025}}`:         {policy.Limits{Tmp: 4 << 30}, "cannot grant limits.tmp: the settings of this machine allow 1025 at most"},
		`{"ceilings": {"file_size": "513k"}}`: {policy.Limits{FileSize: 4 << 30}, "cannot grant limits.file_size: the settings of this machine allow 513k at most"},
		`{"ceilings": {"timeout": "90m"}}`:    {policy.Limits{Timeout: 2 * time.Hour}, "cannot grant limits.timeout: the settings of this machine allow 1h30m0s at most"},
	} {
		c, err := policy.ParseConfig([]byte(document), "/etc/pinfold/config.json")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Apply(want.limits)
		r, ok := errors.AsType[*policy.Refusal](err)
		if !ok || r.Why != want.why || !strings.HasSuffix(r.Fix, " in /etc/pinfold/config.json") {
			t.Errorf("%s: got %+v", document, r)
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
