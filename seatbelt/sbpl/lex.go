package sbpl

import (
	"fmt"
	"strings"
)

// node is one datum of the profile text: a list, or an atom.
type node struct {
	line int
	kind nodeKind
	text string // symbol name, string value, regex source, number
	list []node
}

type nodeKind byte

const (
	kindList nodeKind = iota
	kindSymbol
	kindString
	kindRegex
	kindNumber
)

// ParseError says where a profile stops being readable.
type ParseError struct {
	Line int
	Msg  string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("cannot parse profile: line %d: %s", e.Line, e.Msg)
}

// maxDepth bounds nesting, so that hostile text can't exhaust the stack.
const maxDepth = 64

type lexer struct {
	src  string
	pos  int
	line int
}

func (l *lexer) errorf(format string, args ...any) error {
	return &ParseError{Line: l.line, Msg: fmt.Sprintf(format, args...)}
}

// skip passes white space and ";" comments.
func (l *lexer) skip() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case c == ';':
			end := strings.IndexByte(l.src[l.pos:], '\n')
			if end < 0 {
				l.pos = len(l.src)
				return
			}
			l.pos += end
		default:
			return
		}
	}
}

// readAll reads every datum of the text.
func readAll(src string) ([]node, error) {
	l := &lexer{src: src, line: 1}
	var out []node
	for {
		l.skip()
		if l.pos == len(l.src) {
			return out, nil
		}
		n, err := l.datum(0)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
}

func (l *lexer) datum(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, l.errorf("nested deeper than %d", maxDepth)
	}
	switch c := l.src[l.pos]; {
	case c == '(':
		return l.readList(depth)
	case c == ')':
		return node{}, l.errorf("unexpected )")
	case c == '"':
		return l.readString()
	case c == '#':
		return l.readHash()
	case c == '\'':
		return l.readQuoted()
	case c == '`' || c == ',':
		return node{}, l.errorf("quotation %q is not supported", c)
	default:
		return l.readAtom(), nil
	}
}

func (l *lexer) readList(depth int) (node, error) {
	n := node{line: l.line, kind: kindList}
	l.pos++
	for {
		l.skip()
		if l.pos == len(l.src) {
			return node{}, &ParseError{Line: n.line, Msg: "list is never closed"}
		}
		if l.src[l.pos] == ')' {
			l.pos++
			return n, nil
		}
		item, err := l.datum(depth + 1)
		if err != nil {
			return node{}, err
		}
		n.list = append(n.list, item)
	}
}

// readString reads a string. Only the escapes that quote writes are known:
// \" \\ \n \t \r and \xHH; with any other the text means something we would
// only guess.
func (l *lexer) readString() (node, error) {
	n := node{line: l.line, kind: kindString}
	var b strings.Builder
	for l.pos++; l.pos < len(l.src); l.pos++ {
		switch c := l.src[l.pos]; c {
		case '"':
			l.pos++
			n.text = b.String()
			return n, nil
		case '\\':
			if err := l.escape(&b); err != nil {
				return node{}, err
			}
		case '\n':
			l.line++
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return node{}, &ParseError{Line: n.line, Msg: "string is never closed"}
}

func (l *lexer) escape(b *strings.Builder) error {
	l.pos++
	if l.pos >= len(l.src) {
		return l.errorf("string ends in a backslash")
	}
	switch c := l.src[l.pos]; c {
	case '"', '\\':
		b.WriteByte(c)
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	default:
		return l.errorf("unknown escape \\%c", c)
	}
	return nil
}

// readQuoted reads 'name, and gives (quote name).
func (l *lexer) readQuoted() (node, error) {
	line := l.line
	l.pos++
	atom := l.readAtom()
	if atom.kind != kindSymbol || atom.text == "" {
		return node{}, l.errorf("quotation of anything but a name is not supported")
	}
	return node{line: line, kind: kindList, list: []node{{line: line, kind: kindSymbol, text: "quote"}, atom}}, nil
}

// readHash reads #"regex" (backslashes stand for themselves), #t and #f.
func (l *lexer) readHash() (node, error) {
	if !strings.HasPrefix(l.src[l.pos:], `#"`) {
		return l.readAtom(), nil
	}
	n := node{line: l.line, kind: kindRegex}
	start := l.pos + 2
	for i := start; i < len(l.src); i++ {
		if l.src[i] == '"' && l.src[i-1] != '\\' {
			n.text = l.src[start:i]
			l.pos = i + 1
			return n, nil
		}
		if l.src[i] == '\n' {
			break
		}
	}
	return node{}, &ParseError{Line: n.line, Msg: "regular expression is never closed"}
}

func (l *lexer) readAtom() node {
	start := l.pos
	for l.pos < len(l.src) && !strings.ContainsRune(" \t\r\n()\";", rune(l.src[l.pos])) {
		l.pos++
	}
	n := node{line: l.line, kind: kindSymbol, text: l.src[start:l.pos]}
	if isNumber(n.text) {
		n.kind = kindNumber
	}
	return n
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
