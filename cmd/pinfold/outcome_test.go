package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/plan"
)

// limitResults reads "name=value/hits …".
func limitResults(t *testing.T, text string) []plan.LimitResult {
	t.Helper()
	var list []plan.LimitResult
	for _, one := range strings.Fields(text) {
		name, rest, _ := strings.Cut(one, "=")
		value, hits, _ := strings.Cut(rest, "/")
		list = append(list, plan.LimitResult{Name: name, Value: value, Hits: int64(len(hits))})
	}
	return list
}

// TestInForce: of two timeouts the shorter is in force, wherever it is given, and
// the one that ended the run was hit. A hit is an x.
func TestInForce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan   string
		flag   time.Duration
		reason bwrap.Reason
		want   string
	}{
		"none":                {"memory=1/", 0, bwrap.Exited, "memory=1/"},
		"flag alone":          {"", time.Second, bwrap.Timeout, "timeout=1s/x"},
		"flag alone, exited":  {"memory=1/x", time.Second, bwrap.Exited, "memory=1/x timeout=1s/"},
		"shorter flag":        {"memory=1/ timeout=5s/x", time.Second, bwrap.Timeout, "memory=1/ timeout=1s/x"},
		"longer flag":         {"timeout=5s/x", time.Minute, bwrap.Timeout, "timeout=5s/x"},
		"no flag":             {"timeout=1m30s/x", 0, bwrap.Timeout, "timeout=1m30s/x"},
		"nobody counted":      {"timeout=5s/", 0, bwrap.Timeout, "timeout=5s/x"},
		"silence":             {"memory=1/ idle_timeout=1s/x", 5 * time.Second, bwrap.Timeout, "memory=1/ timeout=5s/ idle_timeout=1s/x"},
		"not silence":         {"idle_timeout=8s/", 5 * time.Second, bwrap.Timeout, "timeout=5s/x idle_timeout=8s/"},
		"silence, and policy": {"timeout=9s/ idle_timeout=1s/x", 0, bwrap.Timeout, "timeout=9s/ idle_timeout=1s/x"},
	} {
		o := &outcome{timeout: c.flag}
		o.ended(bwrap.Exit{Reason: c.reason})
		given := limitResults(t, c.plan)
		got := o.inForce(given)
		if diff := cmp.Diff(limitResults(t, c.want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(got, o.inForce(got)); diff != "" {
			t.Errorf("%s: not stable: %s", name, diff)
		}
		if diff := cmp.Diff(limitResults(t, c.plan), given); diff != "" {
			t.Errorf("%s: what was given has changed: %s", name, diff)
		}
	}
}

func TestReapedInAll(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0 cleared, 0 launches live":          reapedInAll(0, 0, false),
		"1 cleared, 1 launch lives":           reapedInAll(1, 1, false),
		"3 would be cleared, 2 launches live": reapedInAll(3, 2, true),
	} {
		if got != want {
			t.Errorf("got %q, wanted %q", got, want)
		}
	}
}
