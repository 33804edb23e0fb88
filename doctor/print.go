package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold/policy"
)

// Report is what --json prints.
type Report struct {
	Verdict Status   `json:"verdict"`
	Rows    []Result `json:"rows"`
}

// JSON writes the report as one object.
func JSON(w io.Writer, rows []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(Report{Verdict: Verdict(rows), Rows: rows})
}

// Fixes writes the commands alone, each once, for a shell to read.
func Fixes(w io.Writer, rows []Result) error {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.Fix == "" || seen[r.Fix] {
			continue
		}
		seen[r.Fix] = true
		if _, err := fmt.Fprintf(w, "# %s: %s\n%s\n", oneLine(r.Name), oneLine(r.Seen), safe(r.Fix)); err != nil {
			return err
		}
	}
	return nil
}

// Text writes one aligned line a row, the fix beneath the row that needs it,
// once, and a closing sentence.
func Text(w io.Writer, rows []Result, colour bool) error {
	width := 0
	for _, r := range rows {
		width = max(width, utf8.RuneCountInString(oneLine(r.Name)))
	}
	var b strings.Builder
	shown := map[string]bool{}
	for _, r := range rows {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", mark(r.Status, colour), width, oneLine(r.Name), oneLine(r.Seen))
		fix := safe(r.Fix)
		if shown[fix] {
			fix = words("as above")
		}
		shown[r.Fix] = r.Fix != ""
		for line := range strings.SplitSeq(fix, "\n") {
			if line != "" {
				fmt.Fprintf(&b, "%*s%s\n", 9, "", line)
			}
		}
	}
	b.WriteString("\n" + closing(rows) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var colours = map[Status]string{OK: "32", Warn: "33", Unknown: "35", Fail: "31"}

func mark(s Status, colour bool) string {
	text := fmt.Sprintf("%-7s", s)
	if !colour {
		return text
	}
	return "\x1b[" + colours[s] + "m" + text + "\x1b[0m"
}

func closing(rows []Result) string {
	what := "a process"
	if slices.ContainsFunc(rows, func(r Result) bool { return r.container }) {
		what = "a container"
	}
	switch Verdict(rows) {
	case Fail:
		return "This machine can't hold " + what + " yet: see the rows marked fail."
	case Unknown:
		return "Something couldn't be told: see the rows marked unknown."
	case Warn:
		return "This machine can hold " + what + ", with the warnings above."
	}
	return "This machine can hold " + what + "."
}

// oneLine is text for a terminal: what was found may bear names that somebody
// else chose.
func oneLine(s string) string { return policy.Printable(strings.Join(strings.Fields(s), " ")) }

// safe is a fix for a terminal, line by line. One that can be typed has
// nothing that doesn't print: quote sees to that.
func safe(fix string) string {
	lines := strings.Split(fix, "\n")
	for i, l := range lines {
		lines[i] = policy.Printable(l)
	}
	return strings.Join(lines, "\n")
}
