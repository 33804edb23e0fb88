package container

import (
	"slices"

	"pinfold/guard"
	"pinfold/policy"
)

// input is what a translation reads of a Grant. Only the guard can make a
// Grant, so the translation works on this copy and is tested with it.
type input struct {
	Entries     []guard.Entry
	Pins        []guard.Pin
	Watches     []guard.Watch
	Sockets     []guard.Socket
	Maps        []guard.Mapping
	Spellings   []guard.Spelling
	Submounts   []guard.Submount
	Network     policy.Network
	UnixSockets policy.UnixSockets
	Limits      policy.Limits
	Require     []string
	Argv        []string
	Dir         string
	Env         []string
	Withheld    []string
	Paths       guard.Paths
	Owner       guard.Owner
	Notes       []string
	Given       map[string]policy.Position
}

// inputOf copies what a Grant says.
func inputOf(g *guard.Grant) (input, error) {
	submounts, err := g.Submounts()
	if err != nil {
		return input{}, err
	}
	in := input{
		Entries: g.Entries(), Pins: g.Pins(), Watches: g.Watches(), Sockets: g.Sockets(),
		Maps: g.Mappings(), Spellings: g.Spellings(), Submounts: submounts,
		Network: g.Network(), UnixSockets: g.UnixSockets(),
		Limits: g.Limits(), Require: g.Require(), Argv: g.Argv(), Dir: g.Dir(),
		Env: g.Env(), Withheld: g.Withheld(), Paths: g.Paths(), Owner: g.Owner(), Notes: g.Notes(),
	}
	if p := g.Policy(); p != nil {
		in.Given = p.Given
	}
	return in, nil
}

// position is where the policy document sets a field, for people.
func (in input) position(field string) string {
	if at, ok := in.Given[field]; ok && at.File != "" {
		return at.String() + " " + field
	}
	return field
}

// nearest is the entry at a path or above it.
func (in input) nearest(p string) (guard.Entry, bool) {
	for _, e := range slices.Backward(in.Entries) {
		if e.Path == p || isBelow(p, e.Path) {
			return e, true
		}
	}
	return guard.Entry{}, false
}
