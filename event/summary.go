package event

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The bounds of what a Summary remembers and shows: a scan of a million names
// must neither fill the memory nor the screen.
const (
	maxBlocked = 256
	maxShown   = 5
)

// Blocked is one target that was denied.
type Blocked struct {
	Kind   Kind
	Target string
	Reason string
	Hint   string
	Count  int64
	first  int64
}

// Summary collects what was denied during a run. The zero value is ready.
type Summary struct {
	mu   sync.Mutex
	seen map[string]*Blocked
	more int64 // denials of targets past maxBlocked
}

// Emit takes note of denials of hosts, sockets and paths.
func (s *Summary) Emit(e Event) {
	if e.Action != Denied || e.Target == "" || e.Kind != Network && e.Kind != Socket && e.Kind != Path {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]*Blocked{}
	}
	key := e.Target + "\x00" + e.Reason
	switch b := s.seen[key]; {
	case b != nil:
		b.Count++
	case len(s.seen) >= maxBlocked:
		s.more++
	default:
		s.seen[key] = &Blocked{Kind: e.Kind, Target: e.Target, Reason: e.Reason, Hint: e.Hint, Count: 1, first: int64(len(s.seen))}
	}
}

// Blocked lists the denied targets in the order in which they first were.
func (s *Summary) Blocked() []Blocked {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.SortedFunc(maps.Values(s.seen), func(a, b *Blocked) int { return int(a.first - b.first) })
	out := make([]Blocked, len(list))
	for i, b := range list {
		out[i] = *b
	}
	return out
}

// More counts the denials of targets past what Blocked lists.
func (s *Summary) More() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more
}

// Line is the closing line, "" where nothing was denied:
//
//	blocked: x.example:443 (add "x.example:443" to network.allow), y.example:80 ×3
func (s *Summary) Line() string {
	list := s.Blocked()
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for _, b := range list[:min(len(list), maxShown)] {
		parts = append(parts, b.text())
	}
	if rest := len(list) - len(parts); rest > 0 {
		parts = append(parts, fmt.Sprintf("and %s more", atLeast(rest, s.overflow())))
	}
	return "blocked: " + strings.Join(parts, ", ")
}

func (s *Summary) overflow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more > 0
}

func atLeast(n int, open bool) string {
	if open {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

// list is the list of the policy that would allow it.
func (b Blocked) list() string {
	if b.Kind == Socket {
		return "sockets"
	}
	return "network.allow"
}

func (b Blocked) text() string {
	text := b.Target
	if b.Count > 1 {
		text += fmt.Sprintf(" ×%d", b.Count)
	}
	if b.Hint != "" {
		return text + fmt.Sprintf(" (add %s to %s)", Entry(b.Hint), b.list())
	}
	if b.Reason != "" {
		text += " (" + b.Reason + ")"
	}
	return text
}

// Entry is a hint as it stands in a policy: an object as it is, any other
// entry in quotes.
func Entry(hint string) string {
	if strings.HasPrefix(hint, "{") {
		return hint
	}
	return strconv.Quote(hint)
}
