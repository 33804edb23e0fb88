// Tally reads the output of "go test -json" and is stricter than the test
// runner: a skip that is not listed fails, and so does a run of no test.
//
//	go test -json ./... | tally -label unit -skips integration/skips.txt -totals FILE
//	tally -sum FILE
//
// The first form prints what failed, one line of counts, and adds the counts
// to FILE; the second prints the sum of all lines of FILE.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
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
	flag.Parse()
	var err error
	if *sum != "" {
		err = printSum(os.Stdout, *sum)
	} else {
		err = run(os.Stdin, os.Stdout, *label, *skips, *totals)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// counts are the results of one run.
type counts struct {
	Label                   string
	Passed, Failed, Skipped int
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
	expected []skip
}

func run(in io.Reader, out io.Writer, label, skipFile, totals string) error {
	expected, err := readSkips(skipFile)
	if err != nil {
		return err
	}
	t := &tally{
		counts:  counts{Label: label},
		output:  map[key][]string{},
		results: map[key]string{}, parents: map[key]bool{}, expected: expected,
	}
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		t.add(scan.Text(), out)
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("cannot read the test output: %w", err)
	}
	bad := t.report(out)
	fmt.Fprintf(out, "%s: %s\n", label, t.counts)
	if totals != "" {
		if err := appendCounts(totals, t.counts); err != nil {
			return err
		}
	}
	return errors.Join(bad...)
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

// report prints what is wrong and counts. Tests that only group others are
// not counted, as they pass and fail with those.
func (t *tally) report(out io.Writer) []error {
	var bad []error
	keys := make([]key, 0, len(t.results))
	for k := range t.results {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	for _, k := range keys {
		bad = append(bad, t.one(out, k)...)
	}
	if t.Passed == 0 && len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%s: no test passed", t.Label))
	}
	return bad
}

func (t *tally) one(out io.Writer, k key) []error {
	name := strings.TrimSuffix(k.pkg+" "+k.test, " ")
	group := k.test == "" || t.parents[k]
	switch result := t.results[k]; {
	case result == "pass" && !group:
		t.Passed++
	case result == "skip" && k.test != "":
		t.Skipped++
		text := strings.Join(t.output[k], "")
		if why := t.unexpected(k, text); why != "" {
			t.Failed++
			fmt.Fprintf(out, "SKIP %s\n%s", name, text)
			return []error{fmt.Errorf("%s: %s: %s", t.Label, name, why)}
		}
	case result == "fail" || result == "unfinished":
		if !group {
			t.Failed++
		}
		fmt.Fprintf(out, "%s %s\n%s", strings.ToUpper(result), name, strings.Join(t.output[k], ""))
		return []error{fmt.Errorf("%s: %s: %s", t.Label, name, result)}
	}
	return nil
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

func printSum(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the counts: %w", err)
	}
	defer f.Close()
	var sum counts
	for dec := json.NewDecoder(f); ; {
		var c counts
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("cannot read the counts: %w", err)
		}
		fmt.Fprintf(out, "%-24s %s\n", c.Label, c)
		sum.Passed, sum.Failed, sum.Skipped = sum.Passed+c.Passed, sum.Failed+c.Failed, sum.Skipped+c.Skipped
	}
	fmt.Fprintln(out, sum)
	return nil
}
