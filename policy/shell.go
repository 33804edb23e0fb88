package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes text safe for a terminal and keeps it on one line: a path, a
// host or a rule may hold what an attacker chose, escape sequences and marks
// that turn the direction of the text included.
func Printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if shows(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

func shows(r rune) bool { return r != unicode.ReplacementChar && unicode.IsPrint(r) }

// ShellQuote makes one word of any text, for a command line that is printed to
// be pasted. What doesn't print is written as $'…' has it (bash, zsh, ksh), so
// that the word is shown as safely as it is read.
func ShellQuote(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !shows(r) }) < 0 {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch part := s[i : i+n]; {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + part)
		case shows(r):
			b.WriteString(part)
		default:
			for _, c := range []byte(part) {
				fmt.Fprintf(&b, `\%03o`, c) // three digits, whatever comes next
			}
		}
		i += n
	}
	return b.String() + "'"
}
