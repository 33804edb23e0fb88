package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// again is what runs once more, by package.
type again map[string]*rerun

// rerun is a package's part in a second run: the top-level tests that run, and
// what has to pass in it, groups and all. A skip that the first run had isn't
// among that, and may be one again.
type rerun struct {
	tops   []string
	failed []string // in the first run
	passed []string
}

// topOf is the test that -run takes.
func topOf(test string) string {
	top, _, _ := strings.Cut(test, "/")
	return top
}

func (a again) has(k key) bool {
	return a[k.pkg] != nil && slices.Contains(a[k.pkg].tops, topOf(k.test))
}

// again picks the tests that failed. It is an error where something else is
// wrong, or where tests never ran because of one that failed: to run that one
// would leave out the others.
func (t *tally) again() (again, error) {
	list := again{}
	for _, k := range t.keys() {
		_, why := t.one(k)
		switch {
		case why == "" || k.test == "":
		case why != "fail":
			return nil, fmt.Errorf("%s %s: %s", k.pkg, k.test, why)
		default:
			list.add(k.pkg, topOf(k.test))
		}
	}
	for _, k := range t.keys() {
		if _, why := t.one(k); why == "" || k.test != "" {
			continue
		}
		if why := t.results[k]; why != "fail" || list[k.pkg] == nil {
			return nil, fmt.Errorf("%s: %s, and no test of it failed", k.pkg, why)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no test failed")
	}
	if err := t.mayRunAgain(list); err != nil {
		return nil, err
	}
	t.demand(list)
	return list, nil
}

func (a again) add(pkg, top string) {
	if a[pkg] == nil {
		a[pkg] = &rerun{}
	}
	if !slices.Contains(a[pkg].tops, top) {
		a[pkg].tops = append(a[pkg].tops, top)
	}
}

// mayRunAgain refuses what a second run of these tests wouldn't show.
func (t *tally) mayRunAgain(list again) error {
	for pkg := range list {
		if !t.whole[pkg] {
			return fmt.Errorf("%s: it ended before all of its tests had run", pkg)
		}
		if said := t.late[pkg]; said != "" {
			return fmt.Errorf("%s: something was wrong after its tests: %s", pkg, strings.TrimSpace(said))
		}
	}
	// It is a fault, however seldom it shows.
	for k, lines := range t.output {
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "WARNING: DATA RACE") }) {
			return fmt.Errorf("%s %s: a data race", k.pkg, k.test)
		}
	}
	return nil
}

// demand completes the list: with all tests of the packages that run again
// whole, and with what has to pass.
func (t *tally) demand(list again) {
	for _, k := range t.keys() {
		if k.test == "" || list[k.pkg] == nil {
			continue
		}
		if slices.Contains(t.together, strings.TrimPrefix(k.pkg, module)) {
			list.add(k.pkg, topOf(k.test))
		}
		if !list.has(k) {
			continue
		}
		switch r := list[k.pkg]; t.results[k] {
		case "fail":
			r.failed = append(r.failed, k.test)
		case "pass":
			r.passed = append(r.passed, k.test)
		}
	}
}

// module is what "go test" puts before the path of a package.
const module = "pinfold/"

// without counts everything but what runs once more.
func (t *tally) without(list again) counts {
	c := counts{Label: t.Label}
	for _, k := range t.keys() {
		if !list.has(k) {
			one, _ := t.one(k)
			c.add(one)
		}
	}
	return c
}

// compare tells the flaky tests, of which all passed, from those of which
// something didn't run or was skipped.
func (t *tally) compare(out io.Writer, list again) []error {
	var bad []error
	for pkg, r := range list {
		for _, test := range slices.Concat(r.failed, r.passed) {
			if err := t.passedAgain(key{pkg, test}, r); err != nil {
				bad = append(bad, err)
			}
		}
		for _, top := range r.tops {
			if !slices.Contains(r.failed, top) || !t.allPassed(pkg, top, r) {
				continue
			}
			fmt.Fprintf(out, "%s: FLAKY %s %s\n", t.Label, pkg, top)
			t.Flaky = append(t.Flaky, pkg+" "+top)
		}
	}
	slices.Sort(t.Flaky)
	return bad
}

// passedAgain is an error for a test that did neither pass nor fail, which
// is reported.
func (t *tally) passedAgain(k key, r *rerun) error {
	result := t.results[k]
	if result == "pass" || result == "fail" || result == "unfinished" {
		return nil
	}
	if _, why := t.one(k); why == "" && !r.group(k.test) { // else counted already
		t.Failed++
	}
	return fmt.Errorf("%s: %s %s: it was to pass once more, and was %q", t.Label, k.pkg, k.test, result)
}

// group reports whether a test only groups others.
func (r *rerun) group(test string) bool {
	return slices.ContainsFunc(slices.Concat(r.failed, r.passed), func(s string) bool { return strings.HasPrefix(s, test+"/") })
}

// allPassed reports whether all of a top-level test passed.
func (t *tally) allPassed(pkg, top string, r *rerun) bool {
	return !slices.ContainsFunc(slices.Concat(r.failed, r.passed), func(test string) bool {
		return topOf(test) == top && t.results[key{pkg, test}] != "pass"
	})
}

// writeAgain writes "PACKAGE EXPRESSION TEST..." lines, whole or not at all.
// The tests are those that have to pass, with a "!" before what failed: no
// name of a test begins with it, or has a space in it.
func writeAgain(path string, list again) error {
	var b strings.Builder
	for pkg, r := range list {
		fmt.Fprintf(&b, "%s ^(%s)$", pkg, strings.Join(r.tops, "|"))
		for _, test := range r.failed {
			b.WriteString(" !" + test)
		}
		for _, test := range r.passed {
			b.WriteString(" " + test)
		}
		b.WriteByte('\n')
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return errors.Join(fmt.Errorf("cannot write what runs once more: %w", err), os.Remove(path))
	}
	return nil
}

func readAgain(path string) (again, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read what runs once more: %w", err)
	}
	list := again{}
	for l := range strings.Lines(string(text)) {
		pkg, r, ok := parseRerun(l)
		if !ok {
			return nil, fmt.Errorf("cannot read %s: %q is no PACKAGE ^(TESTS)$ !TEST...", path, l)
		}
		list[pkg] = r
	}
	return list, nil
}

// parseRerun reads one line. One that says of nothing that it failed is none.
func parseRerun(l string) (pkg string, r *rerun, ok bool) {
	fields := strings.Fields(l)
	if len(fields) < 3 {
		return "", nil, false
	}
	tests, ok := strings.CutPrefix(fields[1], "^(")
	tests, ok2 := strings.CutSuffix(tests, ")$")
	r = &rerun{tops: strings.Split(tests, "|")}
	for _, test := range fields[2:] {
		if failed, is := strings.CutPrefix(test, "!"); is {
			r.failed = append(r.failed, failed)
		} else {
			r.passed = append(r.passed, test)
		}
	}
	return fields[0], r, ok && ok2 && len(r.failed) > 0
}
