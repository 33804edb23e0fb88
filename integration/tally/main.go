// Tally reads the output of "go test -json" and is stricter than the test
// runner: a skip that is not listed fails, and so does a run of no test.
//
//	go test -json ./... | tally -label unit -skips integration/skips.txt -totals FILE -retry LIST
//	go test -json -run … | tally -label unit -skips integration/skips.txt -totals FILE -after LIST
//	tally -sum FILE
//
// The first form prints what failed, one line of counts, and adds the counts
// to FILE. If nothing but tests failed, each of them to its end, it writes LIST:
// a line for each package with the tests to run once more, as a regular
// expression for -run, and the names of all that has to pass then. With
// -together the packages that it names run again with all of their tests. The
// second form counts that run; a test of which all passes in it is flaky. The
// third prints the sum of all lines of FILE, and what was flaky.
//
// What a second run can't show is a fault that lies in the order of tests, or
// in two that run at the same time: it may pass when one of them runs alone.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	label := flag.String("label", "tests", "name of the run")
	skips := flag.String("skips", "", "file of expected skips")
	totals := flag.String("totals", "", "file to add the counts to")
	sum := flag.String("sum", "", "print the sum of this file and stop")
	retry := flag.String("retry", "", "file to write the failed tests to, if they may run once more")
	after := flag.String("after", "", "file of the tests that this run runs once more")
	together := flag.String("together", "", "packages, by their paths and with spaces between, that run once more with all of their tests")
	flag.Parse()
	var err error
	if *sum != "" {
		err = printSum(os.Stdout, *sum)
	} else {
		err = run(os.Stdin, os.Stdout, options{*label, *skips, *totals, *retry, *after, *together})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// options are the flags of the first two forms.
type options struct{ label, skips, totals, retry, after, together string }

// counts are the results of one run. Flaky are the tests that it ran because
// they had failed, and that passed.
type counts struct {
	Label                   string
	Passed, Failed, Skipped int
	Flaky                   []string `json:",omitempty"`
}

func (c *counts) add(o counts) {
	c.Passed, c.Failed, c.Skipped = c.Passed+o.Passed, c.Failed+o.Failed, c.Skipped+o.Skipped
	c.Flaky = append(c.Flaky, o.Flaky...)
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// line is one event of go test -json.
type line struct {
	Action, Package, Test, Output string
	ImportPath                    string
}

// key names a test, or a package where Test is empty.
type key struct{ pkg, test string }

type tally struct {
	counts
	output   map[key][]string
	results  map[key]string
	parents  map[key]bool
	whole    map[string]bool   // packages whose tests all ran
	late     map[string]string // what a package said once they had
	together []string
	expected []skip
}

func newTally(label string, expected []skip) *tally {
	return &tally{
		counts:  counts{Label: label},
		output:  map[key][]string{},
		results: map[key]string{}, parents: map[key]bool{}, whole: map[string]bool{}, late: map[string]string{}, expected: expected,
	}
}

func run(in io.Reader, out io.Writer, o options) error {
	expected, err := readSkips(o.skips)
	if err != nil {
		return err
	}
	t := newTally(o.label, expected)
	t.together = strings.Fields(o.together)
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		t.add(scan.Text(), out)
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("cannot read the test output: %w", err)
	}
	bad, kept, err := t.conclude(out, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", o.label, t.counts)
	if o.totals != "" {
		if err := appendCounts(o.totals, kept); err != nil {
			return err
		}
	}
	return errors.Join(bad...)
}

// conclude answers what is wrong, and the counts that stay of this run: what
// runs once more is counted there.
func (t *tally) conclude(out io.Writer, o options) (bad []error, kept counts, err error) {
	bad = t.report(out)
	switch {
	case o.after != "":
		list, err := readAgain(o.after)
		if err != nil {
			return nil, kept, err
		}
		bad = append(bad, t.compare(out, list)...)
	case o.retry != "" && len(bad) > 0:
		list, why := t.again()
		if why != nil {
			fmt.Fprintf(out, "%s: nothing runs once more: %v\n", o.label, why)
			break
		}
		return bad, t.without(list), writeAgain(o.retry, list)
	}
	return bad, t.counts, nil
}

// add takes one line; what is no JSON comes from the build.
func (t *tally) add(text string, out io.Writer) {
	var l line
	if json.Unmarshal([]byte(text), &l) != nil {
		fmt.Fprintln(out, text)
		return
	}
	k := key{l.Package, l.Test}
	switch l.Action {
	case "output":
		t.output[k] = append(t.output[k], l.Output)
		t.addLast(l)
	case "build-output":
		fmt.Fprint(out, l.Output)
	case "run", "start":
		t.results[k] = "unfinished"
		for at := l.Test; strings.Contains(at, "/"); {
			at = at[:strings.LastIndex(at, "/")]
			t.parents[key{l.Package, at}] = true
		}
	case "pass", "fail", "skip":
		t.results[k] = l.Action
	case "build-fail":
		t.results[key{l.ImportPath, ""}] = "fail"
	}
}

// addLast looks for the test binary's own last word: it doesn't come after a
// panic, which a time-out is as well, or an exit, and then tests are left that
// never ran. What comes after it is a TestMain's complaint, or a race outside
// of the tests.
func (t *tally) addLast(l line) {
	switch {
	case l.Test != "":
	case !t.whole[l.Package]:
		t.whole[l.Package] = l.Output == "FAIL\n" || l.Output == "PASS\n"
	case !goTestsOwn.MatchString(l.Output):
		t.late[l.Package] += l.Output
	}
}

// goTestsOwn is what "go test" itself says of a test binary that has ended.
var goTestsOwn = regexp.MustCompile(`^(exit status \d+|(FAIL|ok  )\t.*|)\n$`) //nolint:gochecknoglobals // compiled once

// keys are all tests and packages, in order.
func (t *tally) keys() []key {
	keys := slices.Collect(maps.Keys(t.results))
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return keys
}

// report prints what is wrong and counts.
func (t *tally) report(out io.Writer) []error {
	var bad []error
	for _, k := range t.keys() {
		c, why := t.one(k)
		t.counts.add(c)
		if why == "" {
			continue
		}
		name := strings.TrimSuffix(k.pkg+" "+k.test, " ")
		fmt.Fprintf(out, "%s %s\n%s", strings.ToUpper(t.results[k]), name, strings.Join(t.output[k], ""))
		bad = append(bad, fmt.Errorf("%s: %s: %s", t.Label, name, why))
	}
	if t.Passed == 0 && len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%s: no test passed", t.Label))
	}
	return bad
}

// one counts one result, and says what is wrong with it. Tests that only group
// others are not counted, as they pass and fail with those.
func (t *tally) one(k key) (c counts, why string) {
	group := k.test == "" || t.parents[k]
	switch result := t.results[k]; {
	case result == "pass" && !group:
		c.Passed++
	case result == "skip" && k.test != "":
		c.Skipped++
		if why = t.unexpected(k, strings.Join(t.output[k], "")); why != "" {
			c.Failed++
		}
	case result == "fail" || result == "unfinished":
		why = result
		if !group {
			c.Failed++
		}
	}
	return c, why
}

// skip is one expected skip: run labels and tests it applies to, and why.
type skip struct {
	label, test *regexp.Regexp
	why         string
}

// unexpected says why a skip was not to happen, "" for an expected one.
func (t *tally) unexpected(k key, output string) string {
	for _, s := range t.expected {
		if s.label.MatchString(t.Label) && s.test.MatchString(k.test) && strings.Contains(output, s.why) {
			return ""
		}
	}
	return "skipped, and no line of the list of expected skips says so"
}

// readSkips reads "LABEL TEST WHY" lines: two anchored regular expressions
// and a part of the skip's own message.
func readSkips(path string) ([]skip, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the expected skips: %w", err)
	}
	var out []skip
	for n, l := range strings.Split(string(text), "\n") {
		if l = strings.TrimSpace(l); l == "" || l[0] == '#' {
			continue
		}
		fields := strings.Fields(l)
		if len(fields) < 3 {
			return nil, fmt.Errorf("cannot read %s:%d: want LABEL TEST WHY", path, n+1)
		}
		label, err1 := regexp.Compile("^(?:" + fields[0] + ")$")
		test, err2 := regexp.Compile("^(?:" + fields[1] + ")$")
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("cannot read %s:%d: %w", path, n+1, err)
		}
		out = append(out, skip{label, test, strings.Join(fields[2:], " ")})
	}
	return out, nil
}

func appendCounts(path string, c counts) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot keep the counts: %w", err)
	}
	err = json.NewEncoder(f).Encode(c)
	return errors.Join(err, f.Close())
}

// printSum prints one line for each run, however often it was added to, the
// sum, and what was flaky.
func printSum(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the counts: %w", err)
	}
	defer f.Close()
	var runs []counts
	var sum counts
	for dec := json.NewDecoder(f); ; {
		var c counts
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("cannot read the counts: %w", err)
		}
		sum.add(c)
		i := slices.IndexFunc(runs, func(r counts) bool { return r.Label == c.Label })
		if i < 0 {
			runs, i = append(runs, counts{Label: c.Label}), len(runs)
		}
		runs[i].add(c)
	}
	for _, c := range runs {
		fmt.Fprintf(out, "%-24s %s\n", c.Label, c)
	}
	fmt.Fprintln(out, sum)
	for _, c := range runs {
		for _, test := range c.Flaky {
			fmt.Fprintf(out, "flaky: %s: %s\n", c.Label, test)
		}
	}
	return nil
}
