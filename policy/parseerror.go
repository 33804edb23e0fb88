package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseError is one thing wrong with a document.
type ParseError struct {
	At Position
	// Field is the place in words: "read.deny[0]"; "" for the document.
	Field string
	// Msg is why it can't be used.
	Msg string
	// Hint is what to write instead, "" for none.
	Hint string
	// Err is the cause, where there is one ([io/fs.ErrNotExist] …).
	Err error

	// beyondSchema: JSON Schema can't express the rule.
	beyondSchema bool
}

// Error is one line: where, what, why, what instead.
func (e *ParseError) Error() string {
	field := e.Field
	if field == "" {
		field = "the document"
	}
	line := fmt.Sprintf("%s: cannot use %s: %s", e.At, field, e.Msg)
	if e.Hint != "" {
		line += "; " + e.Hint
	}
	return line
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

// String is file:line:column, as editors and compilers write it, without what
// isn't known.
func (p Position) String() string {
	file := p.File
	if file == "" {
		file = "policy"
	}
	if p.Line == 0 {
		return file
	}
	return file + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

// ParseErrors are all that is wrong with a document, in the order of its
// text; at most maxErrors of them. Parse, Load, ParseNeeds and ParseConfig
// return nothing else.
type ParseErrors []*ParseError

// maxErrors keeps a document that is wrong throughout from answering with
// another of its size.
const maxErrors = 20

// Error is one line for each.
func (e ParseErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each, for errors.Is and errors.As.
func (e ParseErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, one := range e {
		errs[i] = one
	}
	return errs
}

// Refusal is the answer of a launch whose policy is such a document.
func (e ParseErrors) Refusal() *Refusal {
	r := &Refusal{Reason: Denied, Code: "policy_invalid", Why: "cannot read the policy", Err: e}
	if len(e) == 0 {
		return r
	}
	first := e[0]
	r.Subject, r.Rule = first.At.File, first.Field
	r.Why = "cannot read the policy: " + first.Error()
	r.Fix = "correct it; pinfold check FILE lists everything that is wrong"
	if len(e) > 1 {
		r.Why += fmt.Sprintf(" (and %d more)", len(e)-1)
	}
	return r
}
