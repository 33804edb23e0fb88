//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// probeCovers tells what is in the place of a denied file and a denied directory,
// and on how many mounts of a common file system what is denied is covered.
const probeCovers = `cat secret/key denied; grep -c ' /[0-9][0-9]* .* - tmpfs ' /proc/self/mountinfo; :`

// TestCoversLater: the supervisor mounts covers itself, and where it is kept from
// that bubblewrap does. What is denied is denied either way.
func TestCoversLater(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for _, filter := range []string{"", "move_mount", "move_mount, by death"} {
		t.Run("filter "+filter, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			must(t, os.Mkdir(l.ws+"/secret", 0o700))
			must(t, os.WriteFile(l.ws+"/secret/key", []byte("CANARY\n"), 0o600))
			must(t, os.WriteFile(l.ws+"/denied", []byte("CANARY\n"), 0o600))
			doc := map[string]any{"write": []string{"{workspace}"}, "read": map[string]any{"deny": []string{"{workspace}/secret", "{workspace}/denied"}}}
			s := l.patient(t, where{filter: filter})
			line := fmt.Sprintf("cd '%s' && '%s' wrap --policy '%s' --workspace '%s' --state '%s' --result '%s/r.json' -- sh -c '%s'",
				l.ws, built.pinfold, l.policyFile(t, doc), l.ws, l.state, l.run, strings.ReplaceAll(probeCovers, "'", `'\''`))
			res := s.run(t, line)
			if filter != "" && os.Getuid() == 0 {
				// bubblewrap can't keep the modes of devices, which are root's.
				refused(t, res, "covers_failed")
				return
			}
			text, err := os.ReadFile(l.run + "/r.json")
			must(t, err)
			var r struct{ Attempts int }
			must(t, json.Unmarshal(text, &r))
			if res.code != 0 || strings.Contains(res.stdout+res.stderr, "CANARY") {
				t.Errorf("%v", res)
			}
			again := strings.Contains(res.stderr, "starting again") // why, is another's where the machine's mounts change meanwhile
			later := strings.TrimSpace(res.stdout) != "0"
			if want := filter != ""; want {
				next := s.run(t, line)
				if next.code != 0 || strings.Contains(next.stdout+next.stderr, "CANARY") || strings.Contains(next.stderr, "starting again") {
					t.Errorf("not remembered: %v", next)
				}
			}
			if want := filter != ""; again != want || r.Attempts == 2 != want || later == want {
				t.Errorf("again %v, %d attempts, mounted later %v: %v", again, r.Attempts, later, res)
			}
		})
	}
}

// TestCoversLaterWithFewFiles: mounting many covers takes not much more
// descriptors than the guard holds anyway.
func TestCoversLaterWithFewFiles(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	l := newLab(t)
	var deny []string
	for i := range 200 {
		path := fmt.Sprintf("%s/denied-%d", l.ws, i)
		must(t, os.WriteFile(path, []byte("CANARY\n"), 0o600))
		deny = append(deny, path)
	}
	doc := map[string]any{"write": []string{"{workspace}"}, "read": map[string]any{"deny": deny}}
	line := fmt.Sprintf("ulimit -n 512 && cd '%s' && '%s' wrap --policy '%s' --workspace '%s' --state '%s' -- sh -c 'cat denied-*; :'",
		l.ws, built.pinfold, l.policyFile(t, doc), l.ws, l.state)
	res := l.patient(t, where{}).run(t, line)
	if res.code != 0 || strings.Contains(res.stdout, "CANARY") || strings.Contains(res.stderr, "starting again") {
		t.Errorf("%v", res)
	}
	if n := strings.Count(res.stderr, "Permission denied"); n != len(deny) {
		t.Errorf("%d of %d were denied", n, len(deny))
	}
}
