package container

import (
	"context"
	"fmt"
	"slices"

	"pinfold/guard"
	"pinfold/policy"
)

// Reach is what a container shows of the host, as far as unix sockets go: each
// one that it sees it can connect to, so one that isn't listed must not be
// there. It is plain data, for a supervisor that takes over as well.
type Reach struct {
	// Places are those where a rule holds, each after what it lies in.
	Places []Place  `json:"places"`
	Listed []string `json:"listed"`
}

// Place is one of them.
type Place struct {
	Path  string     `json:"path"`
	Shown bool       `json:"shown"`
	Rule  guard.Rule `json:"rule"`
}

// reachOf is nil where every socket may be connected to.
func reachOf(in input) *Reach {
	if in.UnixSockets == policy.SocketsAll {
		return nil
	}
	r := &Reach{}
	for _, e := range in.Entries {
		r.Places = append(r.Places, Place{e.Path, e.Access >= guard.ReadOnly, e.Rule})
	}
	for _, s := range in.Sockets {
		r.Listed = append(r.Listed, s.Path)
	}
	return r
}

// First is the first of some sockets that shows and isn't listed, with the rule
// that shows it.
func (r *Reach) First(sockets []string) (path string, rule guard.Rule, ok bool) {
	for _, p := range sockets {
		if slices.Contains(r.Listed, p) {
			continue
		}
		for _, place := range slices.Backward(r.Places) {
			if !isAt(p, place.Path) {
				continue
			}
			if place.Shown {
				return p, place.Rule, true
			}
			break
		}
	}
	return "", guard.Rule{}, false
}

// checkListening refuses a grant that shows a unix socket which somebody
// listens on and the policy doesn't list: whoever sees it can connect.
func checkListening(in input, h Host) error {
	reach := reachOf(in)
	if reach == nil {
		return nil
	}
	paths, err := h.Listening(context.Background(), reach, true)
	if err != nil {
		return fmt.Errorf("cannot tell which unix sockets the host listens on: %w", err)
	}
	if p, rule, bad := reach.First(paths); bad {
		return SocketRefusal(p, rule)
	}
	return nil
}

// SocketRefusal is for a socket that shows and isn't listed.
func SocketRefusal(path string, rule guard.Rule) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "socket_in_grant", Subject: path, Rule: rule.Text,
		Why: fmt.Sprintf("cannot keep the unix socket %q from being connected to: it lies in what %q grants, and a container reaches every socket that it sees", path, rule.Text),
		Fix: SocketFix,
	}
}

// SocketFix is what to do about it.
const SocketFix = `list it in "sockets", deny it in read.deny, or set "unix_sockets": "all"`
