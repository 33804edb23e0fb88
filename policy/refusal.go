package policy

import (
	"errors"
	"fmt"
)

// Reason says who refused: the policy, or this machine.
type Reason string

// The reasons.
const (
	Denied      Reason = "sandbox_denied"
	Unavailable Reason = "sandbox_unavailable"
)

// The sentinels that a [Refusal] matches with errors.Is.
var (
	ErrDenied      = errors.New(string(Denied))
	ErrUnavailable = errors.New(string(Unavailable))
)

// Refusal is why nothing ran. Every refusal in the program is one of these.
type Refusal struct {
	Reason  Reason `json:"reason"`
	Code    string `json:"code"`              // lower_snake_case, documented in docs/troubleshooting.md
	Subject string `json:"subject,omitempty"` // the path, host, field or tool it is about
	Rule    string `json:"rule,omitempty"`    // the rule that decided, as the operator wrote it
	Why     string `json:"why"`               // "cannot <verb> <thing>: <why>"
	Fix     string `json:"fix,omitempty"`     // what to do, one line
	Err     error  `json:"-"`                 // the cause, where there is one
}

// Error is the first of the two lines that people see.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s (%s): %s", r.Reason, r.Code, r.Why)
}

// Is reports a match with ErrDenied or ErrUnavailable.
func (r *Refusal) Is(target error) bool {
	return target == ErrDenied && r.Reason == Denied ||
		target == ErrUnavailable && r.Reason == Unavailable
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
