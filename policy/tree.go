package policy

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The bounds of a document. A policy of a thousand entries has some 50 KiB;
// the deepest legal place is five levels down.
const (
	maxDocument = 1 << 20
	maxDepth    = 64
)

// utf8BOM is the byte order mark that some editors write before UTF-8.
const utf8BOM = "\xef\xbb\xbf"

// node is one value of a document, whatever syntax it was written in.
type node struct {
	kind    nodeKind
	text    string // a string's value; a number or boolean as written
	items   []*node
	members []member
	at      Position
}

type member struct {
	name  string
	at    Position
	value *node
}

type nodeKind string

const (
	nullNode   nodeKind = "null"
	boolNode   nodeKind = "a boolean"
	numberNode nodeKind = "a number"
	stringNode nodeKind = "a string"
	arrayNode  nodeKind = "a list"
	objectNode nodeKind = "an object"
)

// parseTree reads a document as YAML or as JSON with comments, by the file's
// extension.
func parseTree(data []byte, file string) (*node, *ParseError) {
	data, err := checkDocument(data, file)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(file)) {
	case ".yaml", ".yml":
		return parseYAML(data, file)
	}
	return parseJSON(data, file)
}

// checkDocument refuses what no parser should see, and takes off a byte order
// mark.
func checkDocument(data []byte, file string) ([]byte, *ParseError) {
	data = bytes.TrimPrefix(data, []byte(utf8BOM))
	bad := func(msg, hint string) ([]byte, *ParseError) {
		return nil, &ParseError{At: Position{File: file}, Msg: msg, Hint: hint}
	}
	switch {
	case len(data) > maxDocument:
		return bad(fmt.Sprintf("it is larger than %d MiB", maxDocument>>20), "")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return bad("it is written in UTF-16", "save it as UTF-8")
	case bytes.IndexByte(data, 0) >= 0:
		return bad("it is binary: it holds a NUL byte", "")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, emptyError(file)
	}
	if !utf8.Valid(data) {
		at := positionAt(data, invalidOffset(data), file)
		return nil, &ParseError{At: at, Msg: "it is binary, or not written in UTF-8"}
	}
	return data, nil
}

// emptyError: a file that something truncated must not pass for a policy.
func emptyError(file string) *ParseError {
	hint := "write {} if nothing is meant"
	return &ParseError{At: Position{File: file}, Msg: "it is empty", Hint: hint}
}

func invalidOffset(data []byte) int {
	offset := 0
	for offset < len(data) {
		r, size := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		offset += size
	}
	return offset
}

// positionAt counts lines and characters up to an offset.
func positionAt(data []byte, offset int, file string) Position {
	c := cursor{data: data, file: file, line: 1, column: 1}
	return c.position(offset)
}

// cursor turns ascending offsets into positions in one pass over the text.
type cursor struct {
	data         []byte
	file         string
	offset       int
	line, column int
}

func (c *cursor) position(offset int) Position {
	if offset < c.offset {
		return positionAt(c.data, offset, c.file)
	}
	for c.offset < offset && c.offset < len(c.data) {
		b := c.data[c.offset]
		switch {
		case b == '\n':
			c.line, c.column = c.line+1, 1
		case utf8.RuneStart(b):
			c.column++
		}
		c.offset++
	}
	return Position{File: c.file, Line: c.line, Column: c.column}
}
