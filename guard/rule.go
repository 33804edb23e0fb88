package guard

import (
	"fmt"
	"strings"

	"pinfold/policy"
)

// verb is what a rule does at its path.
type verb uint8

const (
	verbAllow    verb = iota + 1 // readable
	verbWrite                    // readable and writable
	verbReadOnly                 // never writable; grants nothing
	verbDeny                     // neither
	verbProtect                  // neither, whatever a policy says
	verbExcept                   // no longer protected from here down
)

// String is the word that messages use.
func (v verb) String() string {
	switch v {
	case verbAllow:
		return "allow"
	case verbWrite:
		return "write"
	case verbReadOnly:
		return "read_only"
	case verbDeny:
		return "deny"
	case verbProtect:
		return "protect"
	case verbExcept:
		return "exception"
	}
	return "invalid"
}

// bound is a rule bound to what its path leads to.
type bound struct {
	verb verb
	look policy.DenyLook
	rule Rule
	// given is the path after expansion, before any link was followed.
	given string
	obj   object
	// socket: a default deny that only the sockets list lifts.
	socket bool
	// optional: left out when missing.
	optional bool
	// shows: it shows even where nothing of the host does.
	shows bool
	// alias: the rule's object shows here as well, through another mount.
	alias bool
	// usual is what stands at such a path where something does.
	usual Kind
	// kept is set where the rule is for what the next launch uses.
	kept *Kept
}

// String names a rule for people.
func (b *bound) String() string { return b.rule.String() }

// String names the rule as people know it: where it stands and how it is
// written.
func (r Rule) String() string {
	switch {
	case r.Source == "":
		return fmt.Sprintf("%q", r.Text)
	case r.Text == "":
		return r.Source
	}
	return fmt.Sprintf("%s %q", r.Source, r.Text)
}

// Lift is the entry of a policy that lifts a rule of pinfold's own: a guarded
// name, or a default deny of a file; "" for other rules. An exception is part
// of a path, so that of a name outside the workspace has no slash before it.
func (r Rule) Lift() string {
	switch r.Class {
	case ClassGuarded:
		return fmt.Sprintf(`"guard_workspace": {"except": [%q]}`, strings.TrimPrefix(r.Text, "/"))
	case ClassDefault:
		return fmt.Sprintf(`"read": {"allow": [%q]}`, r.Text)
	}
	return ""
}

// refuse makes a refusal of the policy's.
func refuse(code, subject string, rule fmt.Stringer, why, fix string) *policy.Refusal {
	r := &policy.Refusal{Reason: policy.Denied, Code: code, Subject: subject, Why: why, Fix: fix}
	if rule != nil {
		r.Rule = rule.String()
	}
	return r
}

// two names both rules of a contradiction.
type two struct{ first, second fmt.Stringer }

func (t two) String() string { return t.first.String() + " and " + t.second.String() }

// keepOne is the hint for both: a person is shown no more than it and the
// reason.
func (t two) keepOne() string { return "keep one of the two entries: " + t.String() }
