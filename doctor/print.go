package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
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
		if _, err := fmt.Fprintf(w, "# %s: %s\n%s\n", r.Name, oneLine(r.Seen), r.Fix); err != nil {
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
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	var b strings.Builder
	shown := map[string]bool{}
	for _, r := range rows {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", mark(r.Status, colour), width, r.Name, oneLine(r.Seen))
		fix := r.Fix
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
	switch Verdict(rows) {
	case Fail:
		return "This machine can't hold a process yet: see the rows marked fail."
	case Unknown:
		return "Something couldn't be told: see the rows marked unknown."
	case Warn:
		return "This machine can hold a process, with the warnings above."
	}
	return "This machine can hold a process."
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
