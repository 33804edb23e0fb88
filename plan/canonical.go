package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of a Plan's form.
const Version = 1

// rawPrefix begins a string that isn't UTF-8: JSON can't hold those, and
// replacing what it can't hold would give two plans one digest. No argument,
// path or name holds a NUL, so nothing else begins like this.
const rawPrefix = "\x00base64:"

// errNUL is a string that no system call takes.
var errNUL = errors.New("a string in it holds a NUL byte")

// Canonical is the plan as RFC 8785 writes it.
func (p *Plan) Canonical() ([]byte, error) {
	b, err := canonical(p)
	if err != nil {
		return nil, fmt.Errorf("cannot write the plan: %w", err)
	}
	return b, nil
}

// Digest is "sha256:" and the SHA-256 of the canonical form, in hexadecimal.
func (p *Plan) Digest() (string, error) {
	b, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return digestOf(b), nil
}

// Parse reads a plan strictly: unknown or repeated members are errors, and so
// is any other form than the canonical one.
func Parse(b []byte) (*Plan, error) {
	p := new(Plan)
	if err := decode(b, p); err != nil {
		return nil, fmt.Errorf("cannot read the plan: %w", err)
	}
	again, err := p.Canonical()
	if err != nil {
		return nil, err
	}
	if string(again) != string(b) {
		return nil, errors.New("cannot read the plan: it isn't in canonical form")
	}
	return p, nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// canonical writes any value of this package.
func canonical(v any) ([]byte, error) {
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	value := jsontext.Value(b)
	if err := value.Canonicalize(); err != nil {
		return nil, err
	}
	return value, nil
}

// encode writes a value with its integers exact, which RFC 8785 has no room
// for: inode numbers may have 64 bits.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(writeString)))
}

func decode(b []byte, v any) error {
	return json.Unmarshal(b, v, json.RejectUnknownMembers(true),
		json.WithUnmarshalers(json.UnmarshalFromFunc(readString)))
}

func writeString(e *jsontext.Encoder, s string) error {
	switch {
	case strings.Contains(s, "\x00"):
		return errNUL
	case !utf8.ValidString(s):
		s = rawPrefix + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return e.WriteToken(jsontext.String(s))
}

func readString(d *jsontext.Decoder, s *string) error {
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '"' {
		return fmt.Errorf("got %v, wanted a string", t.Kind())
	}
	*s = t.String()
	encoded, isRaw := strings.CutPrefix(*s, rawPrefix)
	if !isRaw {
		return nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	*s = string(raw)
	return err
}

// Prime makes the encoders of what a launch writes, which are made when they
// are first used, in half a millisecond. A launch has that time while it waits
// for something else. What it writes here goes nowhere.
func Prime() {
	for _, v := range []any{&Plan{}, &Root{}, &Step{}, &Exit{}} {
		_, _ = canonical(v)
	}
}
