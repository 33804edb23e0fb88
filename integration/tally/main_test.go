package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	t.Parallel()
	skips := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(skips, []byte("# comment\nunit.* TestOld no such kernel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	event := func(action, test, output string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `","Output":"` + output + `"}`
	}
	for name, c := range map[string]struct {
		lines   []string
		want    string
		wantErr bool
	}{
		"a pass":             {[]string{event("run", "TestA", ""), event("pass", "TestA", "")}, "1 passed, 0 failed, 0 skipped", false},
		"a group counts not": {[]string{event("run", "TestA/x", ""), event("pass", "TestA/x", ""), event("pass", "TestA", "")}, "1 passed, 0 failed, 0 skipped", false},
		"a failure":          {[]string{event("pass", "TestA", ""), event("fail", "TestB", "")}, "1 passed, 1 failed, 0 skipped", true},
		"an expected skip":   {[]string{event("pass", "TestA", ""), event("output", "TestOld", "no such kernel"), event("skip", "TestOld", "")}, "1 passed, 0 failed, 1 skipped", false},
		"an unexpected skip": {[]string{event("pass", "TestA", ""), event("output", "TestOld", "other"), event("skip", "TestOld", "")}, "1 passed, 1 failed, 1 skipped", true},
		"no end":             {[]string{event("pass", "TestA", ""), event("run", "TestB", "")}, "1 passed, 1 failed, 0 skipped", true},
		"a build failure":    {[]string{event("pass", "TestA", ""), `{"Action":"build-fail","ImportPath":"q"}`}, "1 passed, 0 failed, 0 skipped", true},
		"nothing":            {nil, "0 passed, 0 failed, 0 skipped", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(strings.NewReader(strings.Join(c.lines, "\n")), &out, options{label: "unit", skips: skips})
			if (err != nil) != c.wantErr || !strings.Contains(out.String(), "unit: "+c.want+"\n") {
				t.Errorf("error %v, output %q, want %q", err, out.String(), c.want)
			}
		})
	}
}
