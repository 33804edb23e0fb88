package plan

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"pinfold/guard"
	"pinfold/policy"
)

// ResultVersion is the version of a Result's form.
const ResultVersion = 1

// The phases of a launch, in order.
const (
	PhasePlan      = "plan"      // flags, policy and guard
	PhasePreflight = "preflight" // what the machine must have, and the exact launch
	PhaseSetup     = "setup"     // the boundary is made
	PhaseRun       = "run"       // the command runs
)

// Result is what became of one launch, the same for every tier, also where
// nothing ran. It is one JSON object.
type Result struct {
	Version int    `json:"version"`
	Run     string `json:"run,omitempty"` // the name in events and records
	Tier    string `json:"tier"`
	Backend string `json:"backend,omitempty"`
	// Reason is one of exited, signaled, timeout, oom, interrupted,
	// boundary_lost, refused and unavailable.
	Reason string `json:"reason"`
	// Exit is what pinfold exits with.
	Exit int `json:"exit"`
	// Signal ended the command: "SIGKILL".
	Signal string `json:"signal,omitempty"`
	// Stop is what a stop had to deliver: term or kill.
	Stop string `json:"stop,omitempty"`
	// Phase is the last one that began.
	Phase  string        `json:"phase"`
	Phases []PhaseResult `json:"phases"`
	// Attempts is how often the launch was made, where that is more than once.
	Attempts int `json:"attempts,omitzero"`
	// Refusal is why nothing ran.
	Refusal *policy.Refusal `json:"refusal,omitempty"`
	// NotRun is why the command didn't run though nothing was refused.
	NotRun *NotRun       `json:"not_run,omitempty"`
	Usage  *Usage        `json:"usage,omitempty"`
	Limits []LimitResult `json:"limits,omitempty"`
	// Network counts what went through the proxy.
	Network *TrafficResult `json:"network,omitempty"`
	// Blocked are the targets that were denied, each with the policy entry
	// that would allow it. MoreBlocked counts denials past the list's bound.
	Blocked     []BlockedResult     `json:"blocked,omitempty"`
	MoreBlocked int64               `json:"more_blocked,omitzero"`
	Persistence []PersistenceResult `json:"persistence,omitempty"`
	// PersistencePartial: there was more to search than time, or something
	// couldn't be read.
	PersistencePartial bool        `json:"persistence_partial,omitzero"`
	Layers             []Layer     `json:"layers,omitempty"`
	Owner              guard.Owner `json:"owner,omitzero"`
	// Record is the record's directory, Digest the plan's.
	Record string    `json:"record,omitempty"`
	Digest string    `json:"digest,omitempty"`
	Stdout *Captured `json:"stdout,omitempty"`
	Stderr *Captured `json:"stderr,omitempty"`
}

// PhaseResult is how long one phase took.
type PhaseResult struct {
	Name       string    `json:"name"`
	Began      time.Time `json:"began"`
	DurationMS float64   `json:"duration_ms"`
}

// NotRun is a command that couldn't be executed, or whose launch was
// interrupted.
type NotRun struct {
	Code string `json:"code"` // not_found, not_executable, not_run
	Why  string `json:"why"`
}

// Usage is what the command and all that it started have used.
type Usage struct {
	// Source is "cgroup" where the kernel counted the whole tree, or "rusage"
	// where it counted by process: PeakMemory is then the largest process's.
	Source     string  `json:"source"`
	CPUMS      float64 `json:"cpu_ms"`
	PeakMemory int64   `json:"peak_memory_bytes,omitzero"`
	// Processes is the most processes and threads that there were at once.
	Processes int64 `json:"peak_processes,omitzero"`
}

// LimitResult is one limit in force, and how often it was hit.
type LimitResult struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Hits  int64  `json:"hits"`
}

// TrafficResult is bytes.
type TrafficResult struct {
	Up   int64 `json:"bytes_up"`
	Down int64 `json:"bytes_down"`
}

// BlockedResult is one denied target.
type BlockedResult struct {
	Target string `json:"target"`
	Reason string `json:"reason,omitempty"`
	Count  int64  `json:"count"`
	// Allow is the policy entry that would allow it.
	Allow string `json:"allow,omitempty"`
}

// PersistenceResult is a file in a write grant that host tools execute by
// themselves.
type PersistenceResult struct {
	Path   string `json:"path"`
	Change string `json:"change"` // new, changed
	What   string `json:"what"`   // who runs it: "git hook", "editor task" …
}

// Captured is what a standard stream said: all of it, or its beginning and
// its end.
type Captured struct {
	// Encoding of Data and Tail: utf-8, or base64 where the bytes aren't text.
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
	// Bytes is how many were written in all.
	Bytes int64 `json:"bytes"`
	// Truncated: Omitted bytes between Data and Tail were dropped.
	Truncated bool   `json:"truncated"`
	Omitted   int64  `json:"omitted,omitzero"`
	Tail      string `json:"tail,omitempty"`
}

// NewCaptured is a stream of n bytes of which head and tail were kept. A
// character that the gap cuts in two is dropped with it.
func NewCaptured(head, tail []byte, n int64) *Captured {
	c := &Captured{Encoding: "utf-8", Bytes: n}
	c.Truncated = n > int64(len(head)+len(tail))
	if c.Truncated {
		head, tail = trimEnd(head), trimStart(tail)
	} else {
		head, tail = append(head[:len(head):len(head)], tail...), nil
	}
	c.Omitted = n - int64(len(head)+len(tail))
	encode := func(b []byte) string { return string(b) }
	if !isText(head) || !isText(tail) {
		c.Encoding, encode = "base64", base64.StdEncoding.EncodeToString
	}
	c.Data, c.Tail = encode(head), encode(tail)
	return c
}

// isText is what JSON holds and every reader takes: a NUL isn't.
func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }

// trimEnd drops the beginning of a character at the end.
func trimEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if r := b[len(b)-i]; utf8.RuneStart(r) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimStart drops the rest of a character at the beginning.
func trimStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// Encode is the result as one line of JSON.
func (r *Result) Encode() ([]byte, error) {
	b, err := encode(r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the result: %w", err)
	}
	return append(b, '\n'), nil
}
