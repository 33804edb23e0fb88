package sbpl

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Profile is a parsed profile.
type Profile struct {
	Rules     []Rule
	versioned bool
}

// Rule is one allow or deny form.
type Rule struct {
	Allow   bool
	Ops     []string
	Filters []Filter // alternatives; none means everything
	Line    int
}

// Value is a string that may be a (param "NAME").
type Value struct {
	Text  string
	Param bool
}

// resolve returns the string that v stands for.
func (v Value) resolve(params map[string]string) (string, error) {
	if !v.Param {
		return v.Text, nil
	}
	s, ok := params[v.Text]
	if !ok {
		return "", fmt.Errorf("cannot evaluate profile: parameter %q is not set", v.Text)
	}
	return s, nil
}

// Parse reads a profile. Whatever it doesn't know is an error: a form that
// was skipped might have been the deny that matters.
func Parse(src string) (*Profile, error) {
	nodes, err := readAll(src)
	if err != nil {
		return nil, err
	}
	p := &Profile{}
	for _, n := range nodes {
		if err := p.take(n); err != nil {
			return nil, err
		}
	}
	if !p.versioned {
		return nil, &ParseError{1, "no (version 1)"}
	}
	return p, nil
}

// take reads one form.
func (p *Profile) take(n node) error {
	head, err := headOf(n)
	if err != nil {
		return err
	}
	switch head {
	case "version":
		if len(n.list) != 2 || n.list[1].text != "1" {
			return &ParseError{n.line, "only (version 1) is known"}
		}
		p.versioned = true
	case "allow", "deny":
		r, err := parseRule(n, head == "allow")
		if err != nil {
			return err
		}
		p.Rules = append(p.Rules, r)
	case "if":
		return p.takeIfDefined(n)
	default:
		return &ParseError{n.line, fmt.Sprintf("form (%s …) is not supported", head)}
	}
	return nil
}

// takeIfDefined reads (if (defined? 'operation) rule), by which a profile
// names an operation that an older system may not know. There it has no rule
// because it doesn't exist; here all exist.
func (p *Profile) takeIfDefined(n node) error {
	if len(n.list) != 3 || len(n.list[1].list) != 2 || n.list[1].list[0].text != "defined?" || len(n.list[1].list[1].list) != 2 {
		return &ParseError{n.line, "of (if …) only (if (defined? 'operation) rule) is supported"}
	}
	if op := n.list[1].list[1].list[1].text; !knownPattern(op) {
		return &ParseError{n.line, fmt.Sprintf("unknown operation %q", op)}
	}
	if head, err := headOf(n.list[2]); err != nil || head != "allow" && head != "deny" {
		return &ParseError{n.line, "of (if …) only (if (defined? 'operation) rule) is supported"}
	}
	return p.take(n.list[2])
}

func headOf(n node) (string, error) {
	if n.kind != kindList || len(n.list) == 0 || n.list[0].kind != kindSymbol {
		return "", &ParseError{n.line, "expected a form (name …)"}
	}
	return n.list[0].text, nil
}

func parseRule(n node, allow bool) (Rule, error) {
	r := Rule{Allow: allow, Line: n.line}
	for _, item := range n.list[1:] {
		if item.kind == kindSymbol {
			if len(r.Filters) > 0 {
				return r, &ParseError{item.line, "operation after a filter"}
			}
			if !knownPattern(item.text) {
				return r, &ParseError{item.line, fmt.Sprintf("unknown operation %q", item.text)}
			}
			r.Ops = append(r.Ops, item.text)
			continue
		}
		head, err := headOf(item)
		if err != nil {
			return r, err
		}
		if head == "with" { // modifiers: report, no-log, send-signal …
			if err := checkModifier(item); err != nil {
				return r, err
			}
			continue
		}
		f, err := parseFilter(item, 0)
		if err != nil {
			return r, err
		}
		r.Filters = append(r.Filters, f)
	}
	if len(r.Ops) == 0 {
		return r, &ParseError{n.line, "rule names no operation"}
	}
	return r, nil
}

// checkModifier lets those modifiers through that don't change a verdict.
func checkModifier(n node) error {
	for _, m := range n.list[1:] {
		switch m.text {
		case "report", "no-report", "no-log", "message", "telemetry":
		default:
			if m.kind != kindString {
				return &ParseError{m.line, fmt.Sprintf("modifier %q is not supported", m.text)}
			}
		}
	}
	return nil
}

func parseFilter(n node, depth int) (Filter, error) {
	head, err := headOf(n)
	if err != nil {
		return nil, err
	}
	if build, ok := combinators[head]; ok {
		subs, err := parseSubfilters(n, depth)
		if err != nil {
			return nil, err
		}
		if head == "require-not" && len(subs) != 1 {
			return nil, &ParseError{n.line, "require-not takes one filter"}
		}
		return build(subs), nil
	}
	return parseLeaf(n, head)
}

var combinators = map[string]func([]Filter) Filter{
	"require-all": func(f []Filter) Filter { return allOf(f) },
	"require-any": func(f []Filter) Filter { return anyOf(f) },
	"require-not": func(f []Filter) Filter { return noneOf{f[0]} },
}

func parseSubfilters(n node, depth int) ([]Filter, error) {
	if len(n.list) < 2 {
		return nil, &ParseError{n.line, "combination of no filter"}
	}
	var out []Filter
	for _, sub := range n.list[1:] {
		f, err := parseFilter(sub, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func parseLeaf(n node, head string) (Filter, error) {
	args := n.list[1:]
	switch head {
	case "literal", "path-literal", "subpath", "prefix", "path":
		return parsePathFilter(n, head, args)
	case "regex", "path-regex", "ipc-posix-name-regex":
		return parseRegex(n, args)
	case "socket-domain":
		return parseWord(n, args, func(s string) Filter { return domain(s) })
	case "socket-protocol":
		return parseNumber(n, args)
	case "syscall-number":
		return parseSyscalls(n, args)
	case "extension":
		return parseExtension(n, args)
	case "vnode-type":
		return parseWord(n, args, func(s string) Filter { return vnodeType(s) })
	case "target":
		return parseWord(n, args, func(s string) Filter { return target(s) })
	case "global-name", "local-name", "sysctl-name", "ipc-posix-name", "iokit-user-client-class",
		"iokit-registry-entry-class", "preference-domain", "xpc-service-name", "right-name":
		return parseNames(n, head, args)
	case "global-name-prefix", "sysctl-name-prefix", "ipc-posix-name-prefix":
		return parseNames(n, head, args)
	case "remote", "local":
		return parseAddress(n, head == "remote", args)
	}
	return nil, &ParseError{n.line, fmt.Sprintf("filter (%s …) is not supported", head)}
}

func parseValue(n node) (Value, error) {
	if n.kind == kindString {
		return Value{Text: n.text}, nil
	}
	if n.kind == kindList && len(n.list) == 2 && n.list[0].text == "param" && n.list[1].kind == kindString {
		return Value{Text: n.list[1].text, Param: true}, nil
	}
	return Value{}, &ParseError{n.line, `expected a string or (param "NAME")`}
}

func parsePathFilter(n node, head string, args []node) (Filter, error) {
	if len(args) == 0 {
		return nil, &ParseError{n.line, head + " without a path"}
	}
	var out anyOf
	for _, a := range args {
		v, err := parseValue(a)
		if err != nil {
			return nil, err
		}
		switch head {
		case "literal", "path-literal", "path":
			out = append(out, literal{v})
		case "subpath":
			out = append(out, subpath{v})
		case "prefix":
			out = append(out, prefix{v})
		}
	}
	return out, nil
}

func parseRegex(n node, args []node) (Filter, error) {
	var out anyOf
	for _, a := range args {
		if a.kind != kindRegex && a.kind != kindString {
			return nil, &ParseError{a.line, "regex takes #\"…\""}
		}
		re, err := regexp.Compile(a.text)
		if err != nil {
			return nil, &ParseError{a.line, err.Error()}
		}
		out = append(out, regex{re})
	}
	if len(out) == 0 {
		return nil, &ParseError{n.line, "regex without an expression"}
	}
	return out, nil
}

// parseNumber is for a socket's protocol.
func parseNumber(n node, args []node) (Filter, error) {
	if len(args) != 1 || args[0].kind != kindNumber {
		return nil, &ParseError{n.line, "expected one number"}
	}
	return protocol(args[0].text), nil
}

func parseSyscalls(n node, args []node) (Filter, error) {
	var out syscalls
	for _, a := range args {
		if a.kind != kindNumber && (a.kind != kindSymbol || !strings.HasPrefix(a.text, "SYS_")) {
			return nil, &ParseError{a.line, "expected a number or a name SYS_…"}
		}
		out = append(out, a.text)
	}
	if len(out) == 0 {
		return nil, &ParseError{n.line, "syscall-number without a number"}
	}
	return out, nil
}

func parseExtension(n node, args []node) (Filter, error) {
	if len(args) != 1 {
		return nil, &ParseError{n.line, "expected one extension"}
	}
	v, err := parseValue(args[0])
	return extension{v}, err
}

func parseWord(n node, args []node, build func(string) Filter) (Filter, error) {
	if len(args) != 1 || args[0].kind != kindSymbol {
		return nil, &ParseError{n.line, "expected one word"}
	}
	return build(args[0].text), nil
}

func parseNames(n node, head string, args []node) (Filter, error) {
	var out anyOf
	for _, a := range args {
		v, err := parseValue(a)
		if err != nil {
			return nil, err
		}
		out = append(out, named{kind: head, value: v})
	}
	if len(out) == 0 {
		return nil, &ParseError{n.line, head + " without a name"}
	}
	return out, nil
}

// parseAddress reads (remote ip "localhost:3128"), (remote tcp "*:*"),
// (remote unix-socket (subpath …)). Seatbelt knows "*" and "localhost" as
// hosts and nothing else, so nothing else is accepted.
func parseAddress(n node, remote bool, args []node) (Filter, error) {
	if len(args) == 0 || args[0].kind != kindSymbol {
		return nil, &ParseError{n.line, "expected a protocol"}
	}
	a := address{remote: remote, proto: args[0].text}
	switch a.proto {
	case "unix-socket", "unix":
		return parseUnix(n, a, args[1:])
	case "ip", "ip4", "ip6", "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6":
	default:
		return nil, &ParseError{n.line, fmt.Sprintf("protocol %q is not supported", a.proto)}
	}
	if len(args) == 1 {
		a.any = true
		return a, nil
	}
	v, err := parseValue(args[1])
	if err != nil {
		return nil, err
	}
	a.value = v
	if !v.Param {
		if _, _, err := splitAddress(v.Text); err != nil {
			return nil, &ParseError{n.line, err.Error()}
		}
	}
	return a, nil
}

// parseUnix reads the one path of a unix-socket filter. Of several the first
// alone counts, by public reports, so that a profile shouldn't have them.
func parseUnix(n node, a address, args []node) (Filter, error) {
	a.proto = "unix-socket"
	if len(args) == 0 {
		a.any = true
		return a, nil
	}
	if len(args) > 1 || len(args[0].list) > 2 {
		return nil, &ParseError{n.line, "more than one path of a unix-socket"}
	}
	f, err := parseFilter(args[0], 0)
	a.path = anyOf{f}
	return a, err
}

// splitAddress reads "host:port" where host is "*" or "localhost" and port a
// number or "*"; zero stands for "*".
func splitAddress(s string) (host string, port int, err error) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != ':' {
			continue
		}
		host = s[:i]
		if s[i+1:] != "*" {
			if port, err = strconv.Atoi(s[i+1:]); err != nil || port < 1 || port > 65535 {
				return "", 0, fmt.Errorf("address %q has no port", s)
			}
		}
		if host != "*" && host != "localhost" {
			return "", 0, fmt.Errorf(`address %q: the host must be "*" or "localhost"`, s)
		}
		return host, port, nil
	}
	return "", 0, fmt.Errorf("address %q has no port", s)
}
