package bwrap

import (
	"pinfold/guard"
	"pinfold/policy"
)

// input is what a translation reads of a Grant. Only the guard can make a
// Grant, so the translation works on this copy and is tested with it.
type input struct {
	Tier        policy.Tier
	Base        policy.ReadBase
	Entries     []guard.Entry
	Pins        []guard.Pin
	Watches     []guard.Watch
	Absent      []guard.Entry
	Links       []guard.Link
	Sockets     []guard.Socket
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
	// Writable says whether the command may change what stands at a path; nil
	// means that it may.
	Writable func(string) bool
	// SetEnv are the values that the policy itself writes: no secrets.
	SetEnv map[string]string
}

// inputOf copies what a Grant says.
func inputOf(g *guard.Grant) input {
	in := input{
		Tier: g.Tier(), Base: g.Base(), Entries: g.Entries(), Pins: g.Pins(), Watches: g.Watches(), Absent: g.Absent(), Links: g.Links(),
		Sockets: g.Sockets(), Network: g.Network(), UnixSockets: g.UnixSockets(),
		Limits: g.Limits(), Require: g.Require(), Argv: g.Argv(), Dir: g.Dir(),
		Env: g.Env(), Withheld: g.Withheld(), Paths: g.Paths(), Owner: g.Owner(),
		Notes: g.Notes(), Writable: g.Writable,
	}
	if p := g.Policy(); p != nil {
		in.Given, in.SetEnv = p.Given, p.Env.Set
	}
	return in
}
