package event

import "time"

// Kind is what an event is about.
type Kind string

// The kinds.
const (
	Network     Kind = "network"
	Socket      Kind = "socket"
	Path        Kind = "path"
	Env         Kind = "env"
	Limit       Kind = "limit"
	Signal      Kind = "signal"
	Boundary    Kind = "boundary"
	Persistence Kind = "persistence"
)

// Action is what was done about it.
type Action string

// The actions.
const (
	Denied   Action = "denied"
	Allowed  Action = "allowed"
	Withheld Action = "withheld"
	Noticed  Action = "noticed"
	Dropped  Action = "dropped" // events themselves, past a bound
)

// Event is one line. Time, Run and Kind are always there.
type Event struct {
	Time     time.Time     `json:"time"`
	Run      string        `json:"run"`
	Kind     Kind          `json:"kind"`
	Action   Action        `json:"action"`
	Target   string        `json:"target,omitempty"`  // host:port, path, variable name
	Address  string        `json:"address,omitempty"` // the address dialled or refused
	Rule     string        `json:"rule,omitempty"`    // the policy entry that decided
	Reason   string        `json:"reason,omitempty"`  // a code: not_listed, private_address, ...
	Hint     string        `json:"hint,omitempty"`    // the policy entry that would allow it
	Via      string        `json:"via,omitempty"`     // http, connect, socks5, transparent
	PID      int           `json:"pid,omitempty"`
	Program  string        `json:"program,omitempty"`
	Up       int64         `json:"up,omitempty"`          // bytes
	Down     int64         `json:"down,omitempty"`        // bytes
	Duration time.Duration `json:"duration_ns,omitempty"` // nanoseconds
	Count    int64         `json:"count,omitempty"`
}

// Sink takes events. Implementations are safe for concurrent use and never
// block the caller for long.
type Sink interface {
	Emit(Event)
}
