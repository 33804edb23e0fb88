package plan

import (
	"errors"
	"fmt"
)

// The steps that recovery reads in a journal.
const (
	ActionHeld = "held" // KindCanaries: all that was tried

	ActionMending = "mending" // KindMount: everything stands, something is put right
	ActionMended  = "mended"  // a place was covered anew
	ActionGone    = "gone"    // a place has no cover, since nothing stands there any more
	ActionLetBe   = "let_be"  // a mount of the host's does no harm
	ActionSettled = "settled" // everything goes on

	KindCanaries = "canaries"
	KindMount    = "mount"
)

// Tried is what the stub tried before the command ran, and what held: so many
// claims of each kind, and how long it took.
type Tried struct {
	Denied, ReadOnly, Writable, Calls, Hosts, Left int
	Micros                                         int
}

const triedFormat = "%d denied, %d read-only, %d writable, %d calls, %d hosts, %d left out, in %d µs"

// String is the detail of a journal's step.
func (t Tried) String() string {
	return fmt.Sprintf(triedFormat, t.Denied, t.ReadOnly, t.Writable, t.Calls, t.Hosts, t.Left, t.Micros)
}

// ParseTried reads what [Tried.String] has written, and nothing else.
func ParseTried(s string) (Tried, error) {
	var t Tried
	_, err := fmt.Sscanf(s, triedFormat, &t.Denied, &t.ReadOnly, &t.Writable, &t.Calls, &t.Hosts, &t.Left, &t.Micros)
	if err == nil && t.String() != s {
		err = errors.New("it says more than that")
	}
	if err != nil {
		return Tried{}, fmt.Errorf("cannot read what was tried, %q: %w", s, err)
	}
	return t, nil
}
