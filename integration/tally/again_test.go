package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ran is the output of a package: test=result pairs in the order of their ends,
// and the test binary's last word.
func ran(pkg, last string, tests ...string) (lines []string) {
	result := "pass"
	for _, test := range tests {
		name, ended, _ := strings.Cut(test, "=")
		lines = append(lines, `{"Action":"run","Package":"`+pkg+`","Test":"`+name+`"}`)
		if ended == "fail" {
			result = "fail"
		}
	}
	for _, test := range tests {
		if name, ended, _ := strings.Cut(test, "="); ended != "" {
			lines = append(lines, `{"Action":"`+ended+`","Package":"`+pkg+`","Test":"`+name+`"}`)
		}
	}
	if last == "" {
		result = "fail"
	} else {
		lines = append(lines, `{"Action":"output","Package":"`+pkg+`","Output":"`+last+`\n"}`)
	}
	return append(lines, `{"Action":"`+result+`","Package":"`+pkg+`"}`)
}

// output is a line that a test or, with none named, its package prints.
func output(pkg, test, text string) string {
	return `{"Action":"output","Package":"` + pkg + `","Test":"` + test + `","Output":"` + text + `\n"}`
}

// TestWhatRunsAgain: the failed tests alone, and nothing where that would hide
// something.
func TestWhatRunsAgain(t *testing.T) {
	t.Parallel()
	good := ran("p", "PASS", "TestA=pass", "TestB/x=pass", "TestB=pass")
	for name, c := range map[string]struct {
		lines []string
		want  string // "": nothing
	}{
		"a success":                 {good, ""},
		"a failure":                 {append(ran("q", "FAIL", "TestC=pass", "TestD=fail"), good...), "q ^(TestD)$ !TestD\n"},
		"two":                       {ran("q", "FAIL", "TestC=fail", "TestD=fail", "TestE=pass"), "q ^(TestC|TestD)$ !TestC !TestD\n"},
		"of several, once":          {ran("q", "FAIL", "TestC/x=fail", "TestC/y=fail", "TestC/z=pass", "TestC=fail"), "q ^(TestC)$ !TestC !TestC/x !TestC/y TestC/z\n"},
		"in one with leaks":         {ran("leaky", "FAIL", "TestC=fail", "TestD/x=pass", "TestD=pass"), "leaky ^(TestC|TestD)$ !TestC TestD TestD/x\n"},
		"the same, by go test":      {ran("pinfold/leaky", "FAIL", "TestC=pass", "TestD=fail"), "pinfold/leaky ^(TestD|TestC)$ !TestD TestC\n"},
		"a complaint at the end":    {append(ran("q", "FAIL", "TestC=fail"), output("q", "", "cannot stop it")), ""},
		"a race":                    {append(ran("q", "FAIL", "TestC=fail"), output("q", "TestC", "WARNING: DATA RACE")), ""},
		"go test's own last words":  {append(ran("q", "FAIL", "TestC=fail"), output("q", "", "exit status 1"), output("q", "", `FAIL\tq\t0.002s`)), "q ^(TestC)$ !TestC\n"},
		"in two packages":           {append(ran("q", "FAIL", "TestC=fail"), ran("r", "FAIL", "TestC=fail")...), "q ^(TestC)$ !TestC\nr ^(TestC)$ !TestC\n"},
		"a panic":                   {append(ran("q", "", "TestC=fail", "TestD"), good...), ""},
		"a panic in the last one":   {ran("q", "", "TestC=pass", "TestD=fail"), ""},
		"a time-out":                {ran("q", "", "TestC=pass", "TestD"), ""},
		"an exit":                   {ran("q", "", "TestC=pass"), ""},
		"a build failure":           {append(ran("q", "FAIL", "TestC=fail"), `{"Action":"build-fail","ImportPath":"r"}`), ""},
		"a package without a test":  {append(ran("q", "FAIL", "TestC=fail"), `{"Action":"start","Package":"r"}`, `{"Action":"fail","Package":"r"}`), ""},
		"a package without an end":  {append(ran("q", "FAIL", "TestC=fail"), `{"Action":"start","Package":"r"}`), ""},
		"an unexpected skip":        {append(ran("q", "FAIL", "TestC=fail"), ran("r", "PASS", "TestD=skip", "TestE=pass")...), ""},
		"a failure beside a panic":  {append(ran("q", "FAIL", "TestC=fail"), ran("r", "", "TestD=fail")...), ""},
		"no test at all":            {nil, ""},
		"a test after a dead group": {ran("q", "", "TestC/x=fail", "TestC=fail"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "again")
			var out strings.Builder
			err := run(strings.NewReader(strings.Join(c.lines, "\n")), &out, options{label: "unit", retry: file, together: "other leaky"})
			if (err == nil) != (name == "a success") {
				t.Errorf("error %v", err)
			}
			text, _ := os.ReadFile(file) //nolint:errcheck // none is none
			got := slices.Sorted(strings.Lines(string(text)))
			if strings.Join(got, "") != c.want {
				t.Errorf("got %q, wanted %q; %s", got, c.want, out.String())
			}
		})
	}
}

// TestSecondRun: what is counted where a run was made once more in part.
func TestSecondRun(t *testing.T) {
	t.Parallel()
	first := ran("p", "FAIL", "TestA=pass", "TestB/x=fail", "TestB/y=pass", "TestB=fail", "TestC=fail")
	for name, c := range map[string]struct {
		second  []string
		want    string
		wantErr bool
	}{
		"all pass": {
			ran("p", "PASS", "TestB/x=pass", "TestB/y=pass", "TestB=pass", "TestC=pass"),
			"unit                     4 passed, 0 failed, 0 skipped\n4 passed, 0 failed, 0 skipped\nflaky: unit: p TestB\nflaky: unit: p TestC\n", false,
		},
		"one fails again": {
			ran("p", "FAIL", "TestB/x=fail", "TestB/y=pass", "TestB=fail", "TestC=pass"),
			"unit                     3 passed, 1 failed, 0 skipped\n3 passed, 1 failed, 0 skipped\nflaky: unit: p TestC\n", true,
		},
		"one doesn't run": {
			ran("p", "PASS", "TestC=pass"),
			"unit                     2 passed, 2 failed, 0 skipped\n2 passed, 2 failed, 0 skipped\nflaky: unit: p TestC\n", true,
		},
		"what failed is skipped": {
			append(ran("p", "PASS", "TestB/x=skip", "TestB/y=pass", "TestB=pass", "TestC=pass"), output("p", "TestB/x", "no such kernel")),
			"unit                     3 passed, 1 failed, 1 skipped\n3 passed, 1 failed, 1 skipped\nflaky: unit: p TestC\n", true,
		},
		"what failed is left out": {
			ran("p", "PASS", "TestB/y=pass", "TestB=pass", "TestC=pass"),
			"unit                     3 passed, 1 failed, 0 skipped\n3 passed, 1 failed, 0 skipped\nflaky: unit: p TestC\n", true,
		},
		"what passed is left out": {
			ran("p", "PASS", "TestB/x=pass", "TestB=pass", "TestC=pass"),
			"unit                     3 passed, 1 failed, 0 skipped\n3 passed, 1 failed, 0 skipped\nflaky: unit: p TestC\n", true,
		},
		"a leak": {
			append(ran("p", "PASS", "TestB/x=pass", "TestB/y=pass", "TestB=pass", "TestC=pass"), `{"Action":"fail","Package":"p"}`),
			"unit                     4 passed, 0 failed, 0 skipped\n4 passed, 0 failed, 0 skipped\nflaky: unit: p TestB\nflaky: unit: p TestC\n", true,
		},
		"a panic": {
			ran("p", "", "TestB/x", "TestC=pass"),
			"unit                     2 passed, 2 failed, 0 skipped\n2 passed, 2 failed, 0 skipped\nflaky: unit: p TestC\n", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			skips := filepath.Join(dir, "skips")
			if err := os.WriteFile(skips, []byte("unit TestB/x no such kernel\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			again, totals := filepath.Join(dir, "again"), filepath.Join(dir, "totals")
			var out, sum strings.Builder
			if err := run(strings.NewReader(strings.Join(first, "\n")), &out, options{label: "unit", totals: totals, retry: again}); err == nil {
				t.Error("the first run is a success")
			}
			err := run(strings.NewReader(strings.Join(c.second, "\n")), &out, options{label: "unit", skips: skips, totals: totals, after: again})
			if (err != nil) != c.wantErr {
				t.Errorf("error %v", err)
			}
			if err := printSum(&sum, totals); err != nil || sum.String() != c.want {
				t.Errorf("%v, got\n%s\nwanted\n%s\n%s", err, sum.String(), c.want, out.String())
			}
		})
	}
}

// What can't be read is no list of nothing.
func TestBadList(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"p", "p TestA", "p ^(TestA)", "p ^(TestA)$", "p ^(TestA)$ TestA", "p TestA !TestA"} {
		file := filepath.Join(t.TempDir(), "again")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Join(ran("p", "PASS", "TestA=pass"), "\n")
		for _, after := range []string{file, file + ".none"} {
			if err := run(strings.NewReader(lines), &strings.Builder{}, options{label: "unit", after: after}); err == nil {
				t.Errorf("%q passes", text)
			}
		}
	}
}
