package seatbelt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"pinfold/policy"
)

// quote writes s as a string of the profile language: names, addresses, and
// those paths for which there is no room among the arguments.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		case '\r':
			b.WriteString(`\r`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// comment writes s so that it can't end a comment line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// parameters hands out the -D parameters of a profile, one for each path.
type parameters struct {
	list  []Param
	names map[string]string
	size  int // as arguments
}

// maxParams bounds the parameters as arguments: macOS takes 1 MiB of arguments
// and environment together (kern.argmax).
const maxParams = 800 << 10

// Param is one -D NAME=VALUE argument of sandbox-exec(1).
type Param struct {
	Name  string
	Value string
}

// of returns the (param "NAME") that stands for path, or the path as a string
// of the profile where there are too many. The kernel compares paths as UTF-8,
// and an argument ends at a NUL byte.
func (p *parameters) of(path string) (string, error) {
	if !utf8.ValidString(path) || strings.ContainsRune(path, 0) {
		return "", &policy.Refusal{
			Reason: policy.Denied, Code: "path_not_expressible", Subject: path,
			Why: fmt.Sprintf("cannot write %q into a sandbox profile: it is not UTF-8", path),
			Fix: "rename it, or leave it out of the policy",
		}
	}
	name, ok := p.names[path]
	if !ok {
		name = fmt.Sprintf("P%d", len(p.list))
		n := len("-D") + 1 + len(name) + len("=") + len(path) + 1
		if p.size+n > maxParams {
			return quote(path), nil
		}
		p.size += n
		p.names[path] = name
		p.list = append(p.list, Param{Name: name, Value: path})
	}
	return `(param "` + name + `")`, nil
}
