package policy

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// shape is what a value of a document may be: the parser and the JSON Schema
// both come from it, so that they can't disagree.
type shape struct {
	// read stores the value; it reports what is wrong to the decoder.
	read func(d *decoder, n *node, at string)
	// schema is the same in JSON Schema 2020-12; a function, since a launch
	// never asks.
	schema func() schemaObject
}

// schemaObject is one schema.
type schemaObject map[string]any

// field is one member of an object.
type field struct {
	name     string
	doc      string
	shape    shape
	required bool
}

// decoder walks one document.
type decoder struct {
	// base is the folder of the document, "" where "./" has no meaning.
	base  string
	given map[string]Position
	errs  ParseErrors
}

func (d *decoder) fail(n *node, at, msg, hint string) {
	d.add(&ParseError{At: n.at, Field: at, Msg: msg, Hint: hint})
}

// beyond is fail for what JSON Schema can't say.
func (d *decoder) beyond(at Position, field, msg, hint string) {
	d.add(&ParseError{At: at, Field: field, Msg: msg, Hint: hint, beyondSchema: true})
}

func (d *decoder) add(e *ParseError) {
	if len(d.errs) < maxErrors {
		d.errs = append(d.errs, e)
	}
}

// is reports whether a value has a kind, and complains if not.
func (d *decoder) is(n *node, kind nodeKind, at string) bool {
	if n.kind == kind {
		return true
	}
	d.fail(n, at, fmt.Sprintf("it is %s and must be %s", n.kind, kind), kindHint(n, kind))
	return false
}

// kindHint knows the slips that people make, YAML's above all.
func kindHint(n *node, want nodeKind) string {
	switch {
	case n.kind == objectNode && len(n.members) == 1 && n.members[0].value.kind == nullNode && isPlaceholder(n.members[0].name):
		return fmt.Sprintf("quote it: \"{%s}\"", clip(n.members[0].name))
	case want == arrayNode && n.kind == stringNode:
		return "put it in brackets, as a list"
	case n.kind == nullNode:
		return "leave the field out"
	}
	return ""
}

// tried is what a shape finds wrong with a value, for a hint that suggests it.
func (d *decoder) tried(s shape, n *node) ParseErrors {
	trial := &decoder{base: d.base, given: map[string]Position{}}
	s.read(trial, n, "")
	return trial.errs
}

// number is the answer to a number where a string is wanted: the same in
// quotes, where that would do, else what would.
func (d *decoder) number(s shape, n *node, at string) {
	quoted := &node{kind: stringNode, text: n.text, at: n.at}
	hint := fmt.Sprintf("write %q", clip(n.text))
	if errs := d.tried(s, quoted); len(errs) > 0 {
		hint = errs[0].Hint
	}
	d.fail(n, at, fmt.Sprintf("it is %s and must be %s", n.kind, stringNode), hint)
}

// object is an object of exactly these fields. check, where given, looks at
// the whole once its fields are read without an error.
func object(fields []field, check func(d *decoder, n *node, at string)) shape {
	read := func(d *decoder, n *node, at string) {
		if !d.is(n, objectNode, at) {
			return
		}
		before := len(d.errs)
		d.members(n, at, fields)
		if check != nil && len(d.errs) == before {
			check(d, n, at)
		}
	}
	return shape{read, func() schemaObject { return objectSchema(fields) }}
}

func objectSchema(fields []field) schemaObject {
	properties := schemaObject{}
	var required []string
	for _, f := range fields {
		property := f.shape.schema()
		property["description"] = f.doc
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	s := schemaObject{"type": "object", "additionalProperties": false, "properties": properties}
	if required != nil {
		s["required"] = required
	}
	return s
}

func (d *decoder) members(n *node, at string, fields []field) {
	seen := map[string]Position{}
	for _, m := range n.members {
		name := join(at, m.name)
		if first, again := seen[m.name]; again {
			d.beyond(m.at, name, fmt.Sprintf("it stands there twice, first in line %d", first.Line), "")
			continue
		}
		seen[m.name] = m.at
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name })
		if i < 0 {
			d.unknown(m, name, fields)
			continue
		}
		d.given[unindexed(name)] = m.at
		fields[i].shape.read(d, m.value, name)
	}
	for _, f := range fields {
		if _, ok := seen[f.name]; f.required && !ok {
			d.fail(n, at, fmt.Sprintf("it has no %q", f.name), "")
		}
	}
}

func (d *decoder) unknown(m member, at string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	hint := didYouMean(m.name, names)
	if m.value.kind == nullNode && isPlaceholder(m.name) {
		hint = fmt.Sprintf("quote it: \"{%s}\"", m.name) // YAML's {name} is an object
	}
	d.add(&ParseError{At: m.at, Field: at, Msg: "there is no such field", Hint: hint})
}

func join(at, name string) string {
	name = clip(name)
	if at == "" {
		return name
	}
	return at + "." + name
}

// unindexed is a place without the indices of lists.
func unindexed(at string) string {
	var plain strings.Builder
	for at != "" {
		before, rest, found := strings.Cut(at, "[")
		plain.WriteString(before)
		if !found {
			break
		}
		_, at, _ = strings.Cut(rest, "]")
	}
	return plain.String()
}

// list reads each item into a new T and adds it to dst if it is sound.
func list[T any](dst *[]T, item func(dst *T) shape) shape {
	read := func(d *decoder, n *node, at string) {
		if n.kind == stringNode && len(d.tried(item(new(T)), n)) == 0 {
			d.fail(n, at, fmt.Sprintf("it is %s and must be %s", n.kind, arrayNode), fmt.Sprintf("write [%q]", clip(n.text)))
			return
		}
		if !d.is(n, arrayNode, at) {
			return
		}
		for i, one := range n.items {
			var value T
			before := len(d.errs)
			item(&value).read(d, one, at+"["+strconv.Itoa(i)+"]")
			if len(d.errs) == before {
				*dst = append(*dst, value)
			}
		}
	}
	return shape{read, func() schemaObject {
		return schemaObject{"type": "array", "items": item(new(T)).schema()}
	}}
}

// either takes one of several shapes by the kind of the value.
func either(expected string, shapes map[nodeKind]shape) shape {
	read := func(d *decoder, n *node, at string) {
		s, ok := shapes[n.kind]
		if !ok {
			hint := kindHint(n, stringNode)
			if n.kind == numberNode {
				hint = "" // in quotes it would be none of these, either
			}
			d.fail(n, at, fmt.Sprintf("it is %s and must be %s", n.kind, expected), hint)
			return
		}
		s.read(d, n, at)
	}
	return shape{read, func() schemaObject {
		var schemas []schemaObject
		for _, kind := range slices.Sorted(maps.Keys(shapes)) {
			schemas = append(schemas, shapes[kind].schema())
		}
		return schemaObject{"anyOf": schemas}
	}}
}

// boolean hands a true or false to set.
func boolean(set func(bool)) shape {
	read := func(d *decoder, n *node, at string) {
		if d.is(n, boolNode, at) {
			set(n.text == "true")
		}
	}
	return shape{read, func() schemaObject { return schemaObject{"type": "boolean"} }}
}

// enum is one of a few words.
func enum[T ~string](dst *T, values ...T) shape {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	read := func(d *decoder, n *node, at string) {
		if !d.is(n, stringNode, at) {
			return
		}
		if slices.Contains(words, n.text) {
			*dst = T(n.text)
			return
		}
		msg := fmt.Sprintf("%q is none of %s", clip(n.text), strings.Join(words, ", "))
		d.fail(n, at, msg, didYouMean(n.text, words))
	}
	return shape{read, func() schemaObject { return schemaObject{"enum": words} }}
}

// text is a string that matches an ECMA-262 pattern and that parse takes; the
// pattern must let through whatever parse does.
func text(pattern string, parse func(d *decoder, n *node, at string) error) shape {
	var s shape
	s.schema = func() schemaObject { return schemaObject{"type": "string", "pattern": pattern} }
	s.read = func(d *decoder, n *node, at string) {
		if n.kind == numberNode {
			d.number(s, n, at)
			return
		}
		if !d.is(n, stringNode, at) {
			return
		}
		err := parse(d, n, at)
		if err == nil {
			return
		}
		e := &ParseError{At: n.at, Field: at, Msg: fmt.Sprintf("%q: %v", clip(n.text), err)}
		switch err := err.(type) { //nolint:errorlint // both are made by the parsers themselves
		case *textError:
			e.Hint = err.hint
		case *HostError:
			e.Msg, e.Hint = fmt.Sprintf("%q: %s", clip(n.text), err.Why), err.Hint
		}
		e.beyondSchema = matches(pattern, n.text)
		d.add(e)
	}
	return s
}

// integer is a whole number within bounds. JSON Schema counts 512.0 and
// 5.12e2 as whole, so it does too.
func integer[T ~int | ~int64 | ~uint16](dst *T, least, most int64) shape {
	read := func(d *decoder, n *node, at string) {
		if !d.is(n, numberNode, at) {
			return
		}
		value, ok := d.rational(n, at)
		if !ok {
			return
		}
		whole := value.Num()
		if !value.IsInt() || !whole.IsInt64() || whole.Int64() < least || whole.Int64() > most {
			d.fail(n, at, fmt.Sprintf("%s is no whole number from %d to %d", n.text, least, most), "")
			return
		}
		*dst = T(whole.Int64())
	}
	return shape{read, func() schemaObject { return schemaObject{"type": "integer", "minimum": least, "maximum": most} }}
}

// number is any number within bounds.
func number(dst *float64, least, most float64) shape {
	read := func(d *decoder, n *node, at string) {
		if !d.is(n, numberNode, at) {
			return
		}
		value, ok := d.rational(n, at)
		if !ok {
			return
		}
		// The bounds are compared as written: 0.01 is no float64.
		low, _ := new(big.Rat).SetString(strconv.FormatFloat(least, 'f', -1, 64))
		if value.Cmp(low) < 0 || value.Cmp(new(big.Rat).SetFloat64(most)) > 0 {
			d.fail(n, at, fmt.Sprintf("%s is no number from %v to %v", n.text, least, most), "")
			return
		}
		*dst, _ = value.Float64()
	}
	return shape{read, func() schemaObject { return schemaObject{"type": "number", "minimum": least, "maximum": most} }}
}

// rational is a number exactly. One with a long exponent would take memory
// for nothing: every bound is far below.
func (d *decoder) rational(n *node, at string) (*big.Rat, bool) {
	_, exponent, _ := strings.Cut(strings.ToLower(n.text), "e")
	if len(n.text) <= 40 && len(exponent) <= 3 {
		if value, ok := new(big.Rat).SetString(n.text); ok {
			return value, true
		}
	}
	d.beyond(n.at, at, fmt.Sprintf("%s is no number of a sensible size", clip(n.text)), "")
	return nil, false
}
