package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads the part of YAML that says the same as JSON: no anchors, no
// aliases, no tags, no merge keys, one document.
func parseYAML(data []byte, file string) (n *node, err *ParseError) {
	if err := checkYAML(data, file); err != nil {
		return nil, err
	}
	// The library has panicked on broken documents before.
	defer func() {
		if p := recover(); p != nil {
			n, err = nil, &ParseError{At: Position{File: file}, Msg: "it is no YAML", Err: fmt.Errorf("yaml: %v", p)}
		}
	}()
	doc, perr := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if perr != nil {
		return nil, yamlSyntax(perr, file)
	}
	r := yamlReader{file: file}
	var body ast.Node
	for _, d := range doc.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			return nil, r.fail(d.Body, "it holds more than one document", "")
		}
		body = d.Body
	}
	if body == nil {
		return nil, emptyError(file)
	}
	return r.node(body, 0)
}

// The library's time grows with the square of the fields of an object and of
// the items of a list: within these bounds it stays in seconds at worst. Ten
// thousand paths fit; what doesn't can be JSON.
const (
	maxYAML   = 256 << 10
	maxColons = 20_000
)

func checkYAML(data []byte, file string) *ParseError {
	if len(data) > maxYAML || bytes.Count(data, []byte(":")) > maxColons {
		msg := fmt.Sprintf("it is larger than %d KiB or has more than %d fields, too much for YAML", maxYAML>>10, maxColons)
		return &ParseError{At: Position{File: file}, Msg: msg, Hint: "write it as JSON"}
	}
	if offset := tooDeepYAML(data); offset >= 0 {
		return depthError(positionAt(data, offset, file))
	}
	return nil
}

// tooDeepYAML bounds what the parser recurses over: brackets anywhere, and
// dashes, question marks and indentation at the start of a line.
func tooDeepYAML(data []byte) int {
	depth, lineDepth, start := 0, 0, true
	for i, b := range data {
		switch {
		case b == '\n':
			lineDepth, start = 0, true
		case start && (b == '-' || b == '?'):
			lineDepth++
		case b == '[' || b == '{':
			depth++
		case (b == ']' || b == '}') && depth > 0:
			depth--
		}
		start = start && (b == ' ' || b == '\n' || b == '-' || b == '?')
		if b == ' ' && start {
			lineDepth++
		}
		// Two characters at least are one level of indentation.
		if depth > maxDepth || lineDepth > 4*maxDepth {
			return i
		}
	}
	return -1
}

// yamlSyntax makes the library's error ours.
func yamlSyntax(err error, file string) *ParseError {
	e := &ParseError{At: Position{File: file}, Msg: "it is no YAML", Err: err}
	placed, ok := errors.AsType[interface {
		error
		GetMessage() string
		GetToken() *token.Token
	}](err)
	if !ok {
		return e
	}
	e.Msg = clip(placed.GetMessage())
	if t := placed.GetToken(); t != nil && t.Position != nil {
		e.At.Line, e.At.Column = t.Position.Line, t.Position.Column
		if strings.HasPrefix(strings.TrimSpace(t.Origin), "*") {
			e.Hint = `quote what starts with "*"`
		}
	}
	return e
}

type yamlReader struct{ file string }

func (r yamlReader) at(n ast.Node) Position {
	at := Position{File: r.file}
	if t := n.GetToken(); t != nil && t.Position != nil {
		at.Line, at.Column = t.Position.Line, t.Position.Column
	}
	return at
}

func (r yamlReader) fail(n ast.Node, msg, hint string) *ParseError {
	return &ParseError{At: r.at(n), Msg: msg, Hint: hint}
}

func (r yamlReader) node(n ast.Node, depth int) (*node, *ParseError) {
	if depth > maxDepth {
		return nil, depthError(r.at(n))
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n, n.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping(n.Key, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		return r.sequence(n, depth)
	}
	return r.scalar(n)
}

func (r yamlReader) sequence(n *ast.SequenceNode, depth int) (*node, *ParseError) {
	list := &node{kind: arrayNode, at: r.at(n)}
	for _, value := range n.Values {
		item, err := r.node(value, depth+1)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
	}
	return list, nil
}

func (r yamlReader) mapping(at ast.Node, values []*ast.MappingValueNode, depth int) (*node, *ParseError) {
	object := &node{kind: objectNode, at: r.at(at)}
	for _, value := range values {
		key, ok := value.Key.(*ast.StringNode)
		if !ok {
			return nil, r.fail(value.Key, "a field's name is a plain string", "quote it")
		}
		if strings.ContainsRune(key.Value, 0) {
			return nil, r.fail(value.Key, "a string holds a NUL byte", "")
		}
		child, err := r.node(value.Value, depth+1)
		if err != nil {
			return nil, err
		}
		object.members = append(object.members, member{key.Value, r.at(key), child})
	}
	return object, nil
}

// jsonNumber is what a number looks like in JSON; YAML has more spellings,
// and people read some of them differently than parsers do (012, 1:30).
const jsonNumber = `^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$`

func (r yamlReader) scalar(n ast.Node) (*node, *ParseError) {
	leaf := &node{at: r.at(n)}
	switch n := n.(type) {
	case *ast.NullNode:
		leaf.kind = nullNode
	case *ast.BoolNode:
		leaf.kind, leaf.text = boolNode, n.Token.Value
		if leaf.text != "true" && leaf.text != "false" {
			return nil, r.fail(n, "a boolean is true or false, in lower case", "")
		}
	case *ast.IntegerNode:
		leaf.kind, leaf.text = numberNode, n.Token.Value
	case *ast.FloatNode:
		leaf.kind, leaf.text = numberNode, n.Token.Value
	case *ast.StringNode:
		leaf.kind, leaf.text = stringNode, n.Value
		// YAML joins the lines of "- /a\n    - /b" to one path, "/a - /b".
		if n.Token.Type == token.StringType && strings.Contains(strings.TrimSpace(n.Token.Origin), "\n") {
			return nil, r.fail(n, "a string runs over several lines without quotes", "check the indentation of what follows, or quote it")
		}
	case *ast.LiteralNode:
		leaf.kind, leaf.text = stringNode, n.Value.Value
	default:
		return nil, r.fail(n, "anchors, aliases, tags, merge keys and special numbers are not supported", "write the value itself; quote what starts with & * or !")
	}
	if leaf.kind == numberNode && !regexp.MustCompile(jsonNumber).MatchString(leaf.text) {
		return nil, r.fail(n, fmt.Sprintf("%q is no plain decimal number", clip(leaf.text)), "quote it if a string is meant")
	}
	if bytes.ContainsRune([]byte(leaf.text), 0) {
		return nil, r.fail(n, "a string holds a NUL byte", "")
	}
	return leaf, nil
}
