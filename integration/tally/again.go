package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// again are the top-level tests that run once more, by package.
type again map[string][]string

// topOf is the test that -run takes.
func topOf(k key) string {
	top, _, _ := strings.Cut(k.test, "/")
	return top
}

func (a again) has(k key) bool { return slices.Contains(a[k.pkg], topOf(k)) }

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
		case !list.has(k):
			list[k.pkg] = append(list[k.pkg], topOf(k))
		}
	}
	for _, k := range t.keys() {
		if _, why := t.one(k); why == "" || k.test != "" {
			continue
		}
		if why := t.results[k]; why != "fail" || len(list[k.pkg]) == 0 {
			return nil, fmt.Errorf("%s: %s, and no test of it failed", k.pkg, why)
		}
	}
	for pkg := range list {
		if !t.whole[pkg] {
			return nil, fmt.Errorf("%s: it ended before all of its tests had run", pkg)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("no test failed")
	}
	return list, nil
}

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

// compare tells the flaky tests, which passed, from those that didn't run.
func (t *tally) compare(out io.Writer, list again) []error {
	var bad []error
	for pkg, tests := range list {
		for _, test := range tests {
			switch result := t.results[key{pkg, test}]; result {
			case "pass":
				fmt.Fprintf(out, "%s: FLAKY %s %s\n", t.Label, pkg, test)
				t.Flaky = append(t.Flaky, pkg+" "+test)
			case "fail", "unfinished": // reported
			default:
				t.Failed++
				bad = append(bad, fmt.Errorf("%s: %s %s: it was to run once more, and was %q", t.Label, pkg, test, result))
			}
		}
	}
	slices.Sort(t.Flaky)
	return bad
}

// writeAgain writes "PACKAGE EXPRESSION" lines, whole or not at all.
func writeAgain(path string, list again) error {
	var b strings.Builder
	for pkg, tests := range list {
		fmt.Fprintf(&b, "%s ^(%s)$\n", pkg, strings.Join(tests, "|"))
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
		pkg, expr, found := strings.Cut(strings.TrimSpace(l), " ")
		tests, ok := strings.CutPrefix(expr, "^(")
		tests, ok2 := strings.CutSuffix(tests, ")$")
		if !found || !ok || !ok2 {
			return nil, fmt.Errorf("cannot read %s: %q is no PACKAGE ^(TESTS)$", path, l)
		}
		list[pkg] = strings.Split(tests, "|")
	}
	return list, nil
}
