package sbpl

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Query is one thing a process tries.
type Query struct {
	Op    string
	Path  string // canonical, for file and unix-socket operations
	Vnode string // REGULAR-FILE, DIRECTORY, SYMLINK, …; "" where unknown
	Name  string // Mach service, sysctl, shared memory, IOKit class
	// Target is "self", "others", "children", "same-sandbox" for signals and
	// process information.
	Target string
	Proto  string // tcp, udp, unix-socket
	Remote netip.AddrPort
	Local  netip.AddrPort
	// Extensions are the sandbox extensions that the process holds for the
	// object: macOS issues com.apple.sandbox.pty for a pseudo-terminal that
	// the process itself has made.
	Extensions []string
	Domain     string // of a socket: AF_UNIX, AF_INET, …
	Protocol   string // of a socket, as a number
	Syscall    string // SYS_shmget, or its number as a profile has it
}

// Semantics is one reading of how rules compete.
type Semantics byte

// The readings; see the package comment.
const (
	// LastMatch: the last rule that matches decides.
	LastMatch Semantics = iota
	// SpecificOperation: among the rules that match, those for the most
	// specific operation decide; the last of them wins.
	SpecificOperation
	// FilteredFirst: a rule with a filter beats one without; then the last.
	FilteredFirst
	// SpecificFilter: literal beats require-all, that beats any other filter,
	// and that beats none; then the last.
	SpecificFilter
	// OpenDefault: (deny default) doesn't reach some operations, which are
	// allowed where no rule names them; see [OutsideDefault].
	OpenDefault
)

// AllSemantics are the readings under which a profile must agree.
func AllSemantics() []Semantics {
	return []Semantics{LastMatch, SpecificOperation, FilteredFirst, SpecificFilter, OpenDefault}
}

// Verdict is an answer and the rule that gave it; Rule is nil where no rule
// matched, which Seatbelt answers with a denial (but see [OpenDefault]).
type Verdict struct {
	Allow bool
	Rule  *Rule
}

// Eval answers q. A parameter that isn't set is an error.
func (p *Profile) Eval(q Query, params map[string]string, s Semantics) (Verdict, error) {
	v, err := p.eval(q, params, s)
	if err != nil {
		return Verdict{}, err
	}
	return v[0], nil
}

// EvalAll answers q under each of [AllSemantics], in their order.
func (p *Profile) EvalAll(q Query, params map[string]string) ([]Verdict, error) {
	return p.eval(q, params, AllSemantics()...)
}

func (p *Profile) eval(q Query, params map[string]string, readings ...Semantics) ([]Verdict, error) {
	out := make([]Verdict, len(readings))
	ranks := make([]int, len(readings))
	for i, s := range readings {
		out[i].Allow = s == OpenDefault && OutsideDefault(q.Op)
	}
	for n := range p.Rules {
		r := &p.Rules[n]
		if ok, err := r.match(q, params); err != nil || !ok {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i, s := range readings {
			if rank, ok := r.rank(q.Op, s); ok && (out[i].Rule == nil || rank >= ranks[i]) {
				out[i], ranks[i] = Verdict{Allow: r.Allow, Rule: r}, rank
			}
		}
	}
	return out, nil
}

// match reports whether the rule is about q.
func (r *Rule) match(q Query, params map[string]string) (bool, error) {
	if !slices.ContainsFunc(r.Ops, func(op string) bool { return Covers(op, q.Op) }) {
		return false, nil
	}
	if len(r.Filters) == 0 {
		return true, nil
	}
	return anyOf(r.Filters).match(q, params)
}

// rank is how strongly a rule that is about an operation counts, and whether
// it does.
func (r *Rule) rank(op string, s Semantics) (rank int, ok bool) {
	switch s {
	case SpecificOperation:
		for _, pattern := range r.Ops {
			if Covers(pattern, op) {
				rank = max(rank, specificity(pattern))
			}
		}
	case FilteredFirst:
		rank = min(len(r.Filters), 1)
	case SpecificFilter:
		rank = sharpness(anyOf(r.Filters))
	case OpenDefault:
		named := func(pattern string) bool { return pattern != "default" && Covers(pattern, op) }
		return 0, !OutsideDefault(op) || slices.ContainsFunc(r.Ops, named)
	case LastMatch:
	}
	return rank, true
}

// sharpness orders filters for [SpecificFilter]. Alternatives count as the
// sharpest among them.
func sharpness(f Filter) int {
	switch f := f.(type) {
	case anyOf:
		most := 0
		for _, sub := range f {
			most = max(most, sharpness(sub))
		}
		return most
	case literal:
		return 3
	case allOf:
		return 2
	}
	return 1
}

// Filter is one condition of a rule.
type Filter interface {
	match(q Query, params map[string]string) (bool, error)
}

type (
	allOf     []Filter
	anyOf     []Filter
	noneOf    struct{ Filter }
	literal   struct{ Value }
	subpath   struct{ Value }
	prefix    struct{ Value }
	regex     struct{ re *regexp.Regexp }
	vnodeType string
	target    string
	domain    string
	protocol  string
	syscalls  []string
	extension struct{ Value }
	named     struct {
		kind  string
		value Value
	}
	address struct {
		remote bool
		proto  string
		any    bool
		value  Value
		path   anyOf
	}
)

func (f allOf) match(q Query, params map[string]string) (bool, error) {
	for _, sub := range f {
		if ok, err := sub.match(q, params); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (f anyOf) match(q Query, params map[string]string) (bool, error) {
	found := false
	for _, sub := range f {
		ok, err := sub.match(q, params)
		if err != nil {
			return false, err
		}
		found = found || ok
	}
	return found, nil
}

func (f noneOf) match(q Query, params map[string]string) (bool, error) {
	ok, err := f.Filter.match(q, params)
	return !ok, err
}

func (f literal) match(q Query, params map[string]string) (bool, error) {
	s, err := f.resolve(params)
	return err == nil && q.Path != "" && s == q.Path, err
}

func (f subpath) match(q Query, params map[string]string) (bool, error) {
	s, err := f.resolve(params)
	if err != nil || q.Path == "" {
		return false, err
	}
	return s == "/" || q.Path == s || strings.HasPrefix(q.Path, strings.TrimSuffix(s, "/")+"/"), nil
}

func (f prefix) match(q Query, params map[string]string) (bool, error) {
	s, err := f.resolve(params)
	return err == nil && q.Path != "" && strings.HasPrefix(q.Path, s), err
}

func (f regex) match(q Query, _ map[string]string) (bool, error) {
	subject := q.Path
	if subject == "" {
		subject = q.Name
	}
	return f.re.MatchString(subject), nil
}

func (f vnodeType) match(q Query, _ map[string]string) (bool, error) {
	return q.Vnode != "" && string(f) == q.Vnode, nil
}

func (f target) match(q Query, _ map[string]string) (bool, error) {
	return string(f) == q.Target, nil
}

func (f domain) match(q Query, _ map[string]string) (bool, error) {
	return q.Domain != "" && string(f) == q.Domain, nil
}

func (f protocol) match(q Query, _ map[string]string) (bool, error) {
	return q.Protocol != "" && string(f) == q.Protocol, nil
}

func (f syscalls) match(q Query, _ map[string]string) (bool, error) {
	return q.Syscall != "" && slices.Contains(f, q.Syscall), nil
}

func (f extension) match(q Query, params map[string]string) (bool, error) {
	s, err := f.resolve(params)
	return err == nil && slices.Contains(q.Extensions, s), err
}

func (f named) match(q Query, params map[string]string) (bool, error) {
	s, err := f.value.resolve(params)
	if err != nil || q.Name == "" {
		return false, err
	}
	if strings.HasSuffix(f.kind, "-prefix") {
		return strings.HasPrefix(q.Name, s), nil
	}
	return q.Name == s, nil
}

func (f address) match(q Query, params map[string]string) (bool, error) {
	if f.proto == "unix-socket" {
		if q.Proto != "unix-socket" || f.any {
			return q.Proto == "unix-socket", nil
		}
		return f.path.match(q, params)
	}
	peer := q.Local
	if f.remote {
		peer = q.Remote
	}
	if !protoMatches(f.proto, q.Proto, peer.Addr()) || !peer.IsValid() {
		return false, nil
	}
	if f.any {
		return true, nil
	}
	text, err := f.value.resolve(params)
	if err != nil {
		return false, err
	}
	host, port, err := splitAddress(text)
	if err != nil {
		return false, err
	}
	return (host == "*" || peer.Addr().Unmap().IsLoopback()) && (port == 0 || port == int(peer.Port())), nil
}

// protoMatches: "ip" is any transport, a trailing 4 or 6 fixes the family.
func protoMatches(filter, proto string, a netip.Addr) bool {
	family := filter[len(filter)-1]
	if family == '4' || family == '6' {
		if (family == '4') != a.Unmap().Is4() {
			return false
		}
		filter = filter[:len(filter)-1]
	}
	return filter == "ip" && (proto == "tcp" || proto == "udp") || filter == proto
}
