package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
)

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(data []byte, file string) (*node, *ParseError) {
	if offset := tooDeep(data); offset >= 0 {
		return nil, depthError(positionAt(data, offset, file))
	}
	if isBlank(data) {
		return nil, emptyError(file)
	}
	// A line comment on the last line is one, newline or not.
	value, err := hujson.Parse(append(data[:len(data):len(data)], '\n'))
	if err != nil {
		return nil, jsonSyntax(data, file, err)
	}
	r := jsonReader{cursor{data: data, file: file, line: 1, column: 1}}
	return r.node(value)
}

func depthError(at Position) *ParseError {
	return &ParseError{At: at, Msg: fmt.Sprintf("it is nested more than %d levels deep", maxDepth)}
}

// isBlank reports whether there is nothing but white space and comments.
func isBlank(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if strings.IndexByte(" \t\r\n", data[i]) >= 0 {
			continue
		}
		end := commentEnd(data, i)
		if end == i || end == len(data) && data[i+1] == '*' {
			return false // no comment, or one that is still open
		}
		i = end
	}
	return true
}

// tooDeep finds where brackets nest too deeply, before a parser that recurses
// sees them; -1 if nowhere.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '/':
			i = commentEnd(data, i)
		case '[', '{':
			if depth++; depth > maxDepth {
				return i
			}
		case ']', '}':
			depth--
		}
	}
	return -1
}

// stringEnd is the offset of the closing quote.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// commentEnd is the offset of a comment's last byte, i itself if none starts
// there.
func commentEnd(data []byte, i int) int {
	end := ""
	switch {
	case bytes.HasPrefix(data[i:], []byte("//")):
		end = "\n"
	case bytes.HasPrefix(data[i:], []byte("/*")):
		end = "*/"
	default:
		return i
	}
	n := bytes.Index(data[i+2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return i + 2 + n + len(end) - 1
}

// jsonSyntax makes hujson's error ours: it gives the place in its text only,
// and counts bytes where people count characters.
func jsonSyntax(data []byte, file string, err error) *ParseError {
	e := &ParseError{At: Position{File: file}, Msg: "it is no JSON", Err: err}
	var line, column int
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); n == 2 {
		e.At = positionAt(data, min(lineStart(data, line)+column-1, len(data)), file)
	}
	cause := errors.Unwrap(err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Msg = "it ends too early: a bracket, quote or comment is still open"
	case cause != nil:
		e.Msg = clip(cause.Error())
	}
	return e
}

func lineStart(data []byte, line int) int {
	offset := 0
	for ; line > 1; line-- {
		next := bytes.IndexByte(data[offset:], '\n')
		if next < 0 {
			return len(data)
		}
		offset += next + 1
	}
	return offset
}

type jsonReader struct{ cursor }

func (r *jsonReader) node(v hujson.Value) (*node, *ParseError) {
	n := &node{at: r.position(v.StartOffset)}
	var err *ParseError
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.kind = objectNode
		n.members, err = r.members(value)
	case *hujson.Array:
		n.kind = arrayNode
		n.items, err = r.items(value)
	case hujson.Literal:
		n.kind = literalKind(value)
		n.text, err = literalText(value, n.at)
	}
	return n, err
}

func (r *jsonReader) items(array *hujson.Array) ([]*node, *ParseError) {
	var items []*node
	for _, element := range array.Elements {
		item, err := r.node(element)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func (r *jsonReader) members(object *hujson.Object) ([]member, *ParseError) {
	var members []member
	for _, m := range object.Members {
		at := r.position(m.Name.StartOffset)
		name, err := literalText(m.Name.Value.(hujson.Literal), at) //nolint:forcetypeassert // the syntax has no other names
		if err != nil {
			return nil, err
		}
		value, err := r.node(m.Value)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, at, value})
	}
	return members, nil
}

func literalKind(l hujson.Literal) nodeKind {
	switch l.Kind() {
	case '"':
		return stringNode
	case '0':
		return numberNode
	case 't', 'f':
		return boolNode
	}
	return nullNode
}

// literalText decodes a string. No string of a document holds a NUL: paths
// and environments can't, and C programs would read half of it. Half a surrogate pair would silently become
// another character, so it is refused.
func literalText(l hujson.Literal, at Position) (string, *ParseError) {
	text := l.String()
	if l.Kind() != '"' {
		return text, nil
	}
	if strings.ContainsRune(text, 0) {
		return "", &ParseError{At: at, Msg: "a string holds a NUL byte"}
	}
	const replacement = "\ufffd"
	if strings.Contains(text, replacement) && !bytes.Contains(l, []byte(replacement)) {
		return "", &ParseError{At: at, Msg: "a string holds half a surrogate pair", beyondSchema: true}
	}
	return text, nil
}
