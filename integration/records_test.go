//go:build linux

package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/plan"
)

// reap runs "pinfold reap" and checks how many records it says it cleared and
// how its last line ends. There may be more that it clears, of other tests.
func (l *lab) reap(t *testing.T, records int, last string, flags ...string) {
	t.Helper()
	res := l.direct(t, launch{argv: append([]string{built.pinfold, "reap", "--state", l.state}, flags...)})
	if res.code != 0 || res.stderr != "" || strings.Count(res.stdout, " the record ") != records || !strings.HasSuffix(res.stdout, " "+last+"\n") {
		t.Errorf("reap %q: wanted %d and %q: %v", flags, records, last, res)
	}
}

// records are those of the lab.
func (l *lab) records(t *testing.T) []string {
	t.Helper()
	list, err := plan.Records(l.state)
	must(t, err)
	return list
}

// TestReapRecordsOfGuardedNames: the record of a launch whose command made
// guarded names holds what was taken away; it goes whole when it is old, with
// what an earlier version left of such a one.
func TestReapRecordsOfGuardedNames(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	script := "ln -s " + l.public + " .idea; mkdir -p d/sub; echo '{}' > d/sub/tasks.json; chmod 500 d/sub; mv d .vscode; " +
		"echo 'export A=1' > e; mv e .envrc; true"
	for range 2 {
		res := l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--quiet"}, argv: []string{"sh", "-c", script}})
		if res.code != 0 {
			t.Fatal(res)
		}
	}
	must(t, os.WriteFile(l.records(t)[0]+"/plan.1.json", nil, 0o400))
	for _, record := range l.records(t) {
		kept, err := filepath.Glob(record + "/taken/*-.*")
		if err != nil || len(kept) != 3 {
			t.Fatalf("kept: %q, %v", kept, err)
		}
	}
	broken := l.records(t)[1]
	for _, name := range []string{"plan.json", "root", "journal", "exit"} {
		must(t, os.Remove(filepath.Join(broken, name)))
	}
	l.reap(t, 1, "would be cleared, 0 launches live", "--dry-run")
	l.reap(t, 2, "would be cleared, 0 launches live", "--dry-run", "--older-than", "1ms")
	l.reap(t, 1, "cleared, 0 launches live")
	if left := l.records(t); len(left) != 1 || left[0] == broken {
		t.Fatalf("left: %q", left)
	}
	mine := l.records(t)[0] + "/mine"
	must(t, os.WriteFile(mine, nil, 0o600))
	res := l.direct(t, launch{argv: []string{built.pinfold, "reap", "--state", l.state, "--older-than", "1ms"}})
	if res.code != 0 || !strings.Contains(res.stderr, `left alone: cannot remove record`) || !strings.Contains(res.stderr, `it holds "mine"`) {
		t.Errorf("with somebody's file in it: %v", res)
	}
	if row := l.direct(t, launch{argv: []string{built.pinfold, "ps", "--state", l.state}}); !strings.Contains(row.stdout, "exited 0") {
		t.Errorf("it isn't whole any more: %v", row)
	}
	must(t, os.Remove(mine))
	l.reap(t, 1, "cleared, 0 launches live", "--older-than", "1ms")
	l.reap(t, 0, "cleared, 0 launches live", "--older-than", "1ms")
	if left, err := os.ReadDir(filepath.Join(l.state, plan.RecordsDir)); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if read(t, l.public+"/notes.txt") == "" {
		t.Error("a link was followed")
	}
}

// TestReapCountsRecordsElsewhere: a launch lives wherever its record lies.
func TestReapCountsRecordsElsewhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	record := l.root + "/record"
	r := l.start(t, launch{
		policy: workspaceOnly(), flags: []string{"--record", record},
		argv: []string{"sh", "-c", "touch " + l.run + "/ready; until [ -e " + l.run + "/go ]; do sleep 0.02; done"},
	})
	r.await(t, l.run+"/ready")
	l.reap(t, 0, "cleared, 1 launch lives", "--older-than", "1ms")
	l.reap(t, 0, "cleared, 1 launch lives", "--older-than", "1ms", "--record", record)
	l.reap(t, 0, "would be cleared, 1 launch lives", "--dry-run")
	write(t, l.run+"/go", "", 0o644)
	<-r.done
	l.reap(t, 0, "cleared, 0 launches live", "--older-than", "1ms")
	if _, err := os.Lstat(record + "/exit"); r.ProcessState.ExitCode() != 0 || err != nil {
		t.Errorf("exit %d, %v", r.ProcessState.ExitCode(), err)
	}
}

// TestTimeoutInForce: the result names the timeout that held, wherever it was
// given, and says which one ended the run.
func TestTimeoutInForce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits doc
		flag   string
		want   string
	}{
		"the flag alone":    {nil, "300ms", "timeout 300ms 1"},
		"the flag, shorter": {doc{"timeout": "40s"}, "300ms", "timeout 300ms 1"},
		"the policy's":      {doc{"timeout": "1s"}, "40s", "timeout 1s 1"},
		"silence":           {doc{"idle_timeout": "1s"}, "40s", "timeout 40s 0, idle_timeout 1s 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			p := workspaceOnly()
			if c.limits != nil {
				p["limits"] = c.limits
			}
			file := l.root + "/result.json"
			res := l.wrap(t, launch{policy: p, flags: []string{"--result", file, "--timeout", c.flag}, argv: []string{"sleep", "30"}})
			var o plan.Result
			must(t, json.Unmarshal([]byte(read(t, file)), &o))
			var got []string
			for _, limit := range o.Limits {
				got = append(got, limit.Name+" "+limit.Value+" "+itoa(int(limit.Hits)))
			}
			if res.code != 124 || strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, wanted %q: %v", got, c.want, res)
			}
		})
	}
}
