package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The patterns of values that aren't paths; see [text].
const (
	portPattern = `(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`
	// nameBytes is every character of a name, international ones included:
	// - . 0-9 A-Z a-z _ and all beyond ASCII.
	nameBytes   = `[^\x00-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]`
	hostPattern = `^(?:(?:\*\.)?` + nameBytes + `+(?::` + portPattern + `)?` +
		`|[0-9.]+/[0-9]{1,3}(?::` + portPattern + `)?` +
		`|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:/[0-9]{1,3}(?::` + portPattern + `)?)?` +
		`|\[[0-9A-Fa-f:.]+(?:\](?:/[0-9]{1,3})?|/[0-9]{1,3}\])(?::` + portPattern + `)?)$`
	denyPattern           = `^\*(?::` + portPattern + `)?$|` + hostPattern
	sizePattern           = `^(?:[1-9][0-9]{0,8}[kmg]|[1-9][0-9]{0,14})$`
	durationPattern       = `^(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|s|m|h)){1,8}$`
	exposePattern         = `^(?:(?:[0-9.]+|\[[0-9A-Fa-f:.]+\]):` + portPattern + `:)?` + portPattern + `(?::` + portPattern + `)?$|^(?:[0-9]+\.[0-9.]+|\[[0-9A-Fa-f:.]+\]):` + portPattern + `$`
	upstreamPattern       = `^(?:env(?::[A-Za-z_][A-Za-z0-9_]*)?|file:/[^\x00-\x1f\x7f]+|(?:http|https|socks5|socks5h)://[^@/?#\x00-\x20]+/?(?:\?no_proxy=[^&#\x00-\x20]*)?)$`
	maxInteger      int64 = 1<<53 - 1 // what every reader of JSON holds exactly
)

// parseSize reads a number of bytes: digits, then k, m or g for powers of
// 1024.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "kmg")
	shift := 0
	switch text[len(digits):] {
	case "":
	case "k":
		shift = 10
	case "m":
		shift = 20
	case "g":
		shift = 30
	default:
		return 0, sizeError(text)
	}
	most := 15
	if shift > 0 {
		most = 9
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || len(digits) > most || digits[0] == '0' || digits[0] == '+' {
		return 0, sizeError(text)
	}
	return n << shift, nil
}

func sizeError(text string) error {
	hint := `write bytes, or a number with k, m or g: "512m"`
	lower := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(text), "b"), "i")
	if lower != text && lower != "" {
		if _, err := parseSize(lower); err == nil {
			hint = fmt.Sprintf("write %q", lower)
		}
	}
	return &textError{"it is no size above zero", hint}
}

// size is a number of bytes, as a number or as text.
func size(dst *int64) shape {
	return either("a size", map[nodeKind]shape{
		numberNode: integer(dst, 1, 999_999_999_999_999),
		stringNode: text(sizePattern, func(_ *decoder, n *node, _ string) (err error) {
			*dst, err = parseSize(n.text)
			return err
		}),
	})
}

// maxDuration is a year: what is longer is a slip.
const maxDuration = 366 * 24 * time.Hour

func duration(dst *time.Duration) shape {
	return text(durationPattern, func(_ *decoder, n *node, _ string) error {
		value, err := time.ParseDuration(n.text)
		if err != nil || !isDuration(n.text) {
			return &textError{"it is no duration", durationHint(n.text)}
		}
		if value < time.Millisecond || value > maxDuration {
			return &textError{"it is shorter than a millisecond or longer than a year", "leave the field out for no limit"}
		}
		*dst = value
		return nil
	})
}

// durationHint knows that most slips are a number without its unit.
func durationHint(text string) string {
	if seconds := text + "s"; isDuration(seconds) {
		least, err := time.ParseDuration(seconds)
		if err == nil && least >= time.Millisecond && least <= maxDuration/60 {
			return fmt.Sprintf("write %q or %q", seconds, text+"m")
		}
	}
	return `write "90s", "30m" or "1h30m"`
}

// matches is for the rare text that only a pattern describes; the patterns
// are compiled when one is met, not at every start of the program.
func matches(pattern, text string) bool {
	return regexp.MustCompile(pattern).MatchString(text)
}

// isDuration is stricter than Go, which takes signs, "1.s", ".5s", other units
// and any length.
func isDuration(text string) bool {
	for range 8 {
		unit := strings.TrimLeft(text, "0123456789.")
		whole, fraction, point := strings.Cut(text[:len(text)-len(unit)], ".")
		if whole == "" || len(whole) > 9 || point && (fraction == "" || len(fraction) > 9) {
			return false
		}
		text = strings.TrimLeft(unit, "hms")
		switch unit[:len(unit)-len(text)] {
		case "ms", "s", "m", "h":
		default:
			return false
		}
		if text == "" {
			return true
		}
	}
	return false
}

// plain is a string of one of the simple kinds below.
func plain(dst *string, kind plainKind) shape {
	return text(kind.pattern, func(_ *decoder, n *node, _ string) error {
		if !kind.holds(n.text) {
			return &textError{kind.why, kind.hint}
		}
		*dst = n.text
		return nil
	})
}

func plainList(dst *[]string, kind plainKind) shape {
	return list(dst, func(s *string) shape { return plain(s, kind) })
}

// pathRule is one entry of a list of paths: text, or an object with more to
// say. deny lists take "as".
func pathRule(dst *PathRule, deny bool) shape {
	fromText := pathText(dst, deny)
	var raw struct {
		path    *node
		literal bool
		as      DenyLook
	}
	fields := []field{
		{name: "path", doc: "The path, as it would stand in the list; with literal, each character as itself.", required: true, shape: shape{
			read:   func(d *decoder, n *node, at string) { d.is(n, stringNode, at); raw.path = n },
			schema: func() schemaObject { return schemaObject{"type": "string"} },
		}},
		{name: "literal", doc: "Take every character as itself; the path is absolute.", shape: boolean(func(b bool) { raw.literal = b })},
	}
	if deny {
		doc := "How the path looks: error (the default) answers EACCES, empty shows an empty file or directory."
		fields = append(fields, field{name: "as", doc: doc, shape: enum(&raw.as, DenyError, DenyEmpty)})
	}
	fromObject := object(fields, func(d *decoder, n *node, at string) {
		if raw.literal {
			literalText := text(literalPattern, func(_ *decoder, n *node, _ string) error { return checkLiteral(n.text) })
			literalText.read(d, raw.path, at)
			*dst = PathRule{Text: raw.path.text, Literal: true, Source: at, At: n.at}
		} else {
			fromText.read(d, raw.path, at)
			dst.At = n.at
		}
		dst.As = raw.as
	})
	plainSchema := fromObject.schema
	fromObject.schema = func() schemaObject { return pathSchema(plainSchema(), fromText.schema()) }
	return either("a path", map[nodeKind]shape{stringNode: fromText, objectNode: fromObject})
}

// pathSchema says that a literal path and another one look different.
func pathSchema(s, path schemaObject) schemaObject {
	literal := schemaObject{"literal": schemaObject{"const": true}}
	s["if"] = schemaObject{"properties": literal, "required": []string{"literal"}}
	s["then"] = schemaObject{"properties": schemaObject{"path": schemaObject{"pattern": literalPattern}}}
	s["else"] = schemaObject{"properties": schemaObject{"path": path}}
	return s
}

// pathText is a path as text. A leading "?" makes it optional, except in a
// deny list: what is missing can be denied as it is.
func pathText(dst *PathRule, deny bool) shape {
	pattern := optionalPattern
	if deny {
		pattern = pathPattern
	}
	return text(pattern, func(d *decoder, n *node, at string) error {
		rest, optional := strings.CutPrefix(n.text, "?")
		if optional && deny {
			return &textError{`a deny needs no "?"`, "a missing path is denied as it is"}
		}
		head, _, err := splitPath(rest)
		if err != nil {
			return err
		}
		*dst = PathRule{Text: rest, Optional: optional, Source: at, At: n.at}
		if head != "./" {
			return nil
		}
		if d.base == "" {
			return &textError{why: `there is no file that "./" could start from`}
		}
		dst.Base = d.base
		return nil
	})
}

const optionalPattern = `^\??` + pathAfterStart

func paths(dst *[]PathRule) shape {
	return list(dst, func(p *PathRule) shape { return pathRule(p, false) })
}

func denyPaths(dst *[]PathRule) shape {
	return list(dst, func(p *PathRule) shape { return pathRule(p, true) })
}

// hostText is a host pattern as text.
func hostText(dst *HostPattern, pattern string, parse func(string) (HostPattern, error)) shape {
	return text(pattern, func(_ *decoder, n *node, at string) error {
		p, err := parse(n.text)
		p.Source, p.At = at, n.at
		*dst = p
		return err
	})
}

// allowHost is an entry of network.allow: text, or an object that says that
// the flow isn't TLS, or how much may leave by it.
func allowHost(dst *HostPattern) shape {
	var tls *bool
	var budget Budget
	fromObject := object([]field{
		{name: "host", doc: "The host, as it would stand in the list.", required: true, shape: hostText(dst, hostPattern, ParseHostPattern)},
		{name: "tls", doc: "false: what flows there isn't TLS, so no server name is verified.", shape: boolean(func(b bool) { tls = &b })},
		{name: "budget", doc: "How much may leave to it in one run, beside network.budget.", shape: object(budgetFields(&budget), nil)},
	}, func(_ *decoder, n *node, at string) {
		dst.TLS, dst.Budget, dst.Source, dst.At = tls, budget, at, n.at
	})
	return either("a host", map[nodeKind]shape{
		stringNode: hostText(dst, hostPattern, ParseHostPattern),
		objectNode: fromObject,
	})
}

// expose is "[address:]outside[:inside]".
func expose(dst *Expose) shape {
	return text(exposePattern, func(_ *decoder, n *node, _ string) (err error) {
		*dst, err = parseExpose(n.text)
		return err
	})
}

func parseExpose(text string) (Expose, error) {
	bad := &textError{"it is no port to expose", `write "3000", "8080:80" (outside:inside) or "127.0.0.1:8080:80"`}
	e := Expose{Text: text}
	ports := text
	if at := strings.LastIndex(text, "]:"); at >= 0 {
		e.Address, ports = text[:at+1], text[at+2:]
	} else if first, rest, ok := strings.Cut(text, ":"); ok && strings.Contains(first, ".") {
		e.Address, ports = first, rest
	}
	if e.Address != "" {
		addr, err := netip.ParseAddr(strings.Trim(e.Address, "[]"))
		if err != nil || addr.Is6() != (e.Address[0] == '[') || addr.Zone() != "" {
			return Expose{}, bad
		}
		e.Address = addr.String()
	}
	outside, inside, two := strings.Cut(ports, ":")
	if !two {
		inside = outside
	}
	var ok1, ok2 bool
	e.Outside, ok1 = parsePort(outside)
	e.Inside, ok2 = parsePort(inside)
	if !ok1 || !ok2 {
		return Expose{}, bad
	}
	return e, nil
}

// upstream is "env", the URL of a proxy, or where such a URL is found: a
// variable or a file. A password has no place in a policy: it would stand in
// plans and messages.
func upstream(dst *string) shape {
	return text(upstreamPattern, func(_ *decoder, n *node, _ string) error {
		if n.text == "env" || matches(`^(?:env|file):`, n.text) && matches(upstreamPattern, n.text) {
			*dst = n.text
			return nil
		}
		u, err := url.Parse(n.text)
		switch {
		case err != nil || !matches(`^(?:http|https|socks5|socks5h)$`, u.Scheme) || u.Host == "":
			return &textError{"it is no proxy", `write "env" or a URL such as "http://proxy.example:3128"`}
		case u.User != nil:
			return &textError{"a policy holds no user name or password", "write the URL without them"}
		case strings.Trim(u.Path, "/") != "" || !matches(upstreamPattern, n.text):
			return &textError{"a proxy's URL is its scheme, host and port alone", ""}
		}
		if _, _, _, err := NormalizeHost(hostOf(u)); err != nil {
			return err
		}
		if port := u.Port(); port != "" {
			if _, ok := parsePort(port); !ok {
				return &textError{"its port isn't a number from 1 to 65535", ""}
			}
		}
		*dst = n.text
		return nil
	})
}

func hostOf(u *url.URL) string {
	if host := u.Hostname(); !strings.Contains(host, ":") {
		return host
	}
	return "[" + u.Hostname() + "]"
}

// cleanTarget is an absolute path inside a container.
func cleanTarget(dst *string) shape {
	return text(literalPattern, func(_ *decoder, n *node, _ string) error {
		if err := checkLiteral(n.text); err != nil {
			return err
		}
		if path.Clean(n.text) == "/" {
			return &textError{"nothing can be mounted over the whole root", ""}
		}
		*dst = path.Clean(n.text)
		return nil
	})
}
