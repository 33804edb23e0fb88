package bwrap

import (
	"fmt"

	"pinfold/policy"
)

// unbuilt is a field of a policy that this tier can't enforce yet. Such a
// field refuses the launch; it is never ignored.
type unbuilt struct {
	field string
	set   func(input) bool
	fix   string
}

// unbuiltFields holds one line for each: delete it once the field is enforced.
var unbuiltFields = []unbuilt{
	{"tier", func(in input) bool { return in.Tier == policy.TierContainer }, `use "tier": "process"`},
	{"container", func(in input) bool { return in.given("container") }, "leave the field out"},
}

// refuseUnbuilt refuses the first field that is set and can't be enforced.
func refuseUnbuilt(in input) error {
	for _, u := range unbuiltFields {
		if !u.set(in) {
			continue
		}
		return &policy.Refusal{
			Reason:  policy.Unavailable,
			Code:    "field_unavailable",
			Subject: u.field,
			Rule:    in.position(u.field),
			Why:     fmt.Sprintf("cannot enforce %s: the process tier has no means for it yet", u.field),
			Fix:     u.fix,
		}
	}
	return nil
}

// given reports whether the policy document sets a field.
func (in input) given(field string) bool {
	_, ok := in.Given[field]
	return ok
}

// position is where the policy document sets a field, for people.
func (in input) position(field string) string {
	at, ok := in.Given[field]
	if !ok || at.File == "" {
		return field
	}
	return fmt.Sprintf("%s:%d:%d %s", at.File, at.Line, at.Column, field)
}
