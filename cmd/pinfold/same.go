package main

import (
	"fmt"
	"os"
	"slices"

	"pinfold/guard"
	"pinfold/policy"
)

// place is what a launch grants at one path.
type place struct {
	path   string
	access guard.Access
	id     guard.FileID
}

// places are what a launch was given by name and grants, as the guard found
// them at one time: a launch that is made anew is to be the same, and not to
// follow a name to what stands there meanwhile. Sockets aren't among them:
// they belong to whoever listens there, and a server that is started again has
// a new one.
type places struct {
	own     guard.Paths
	dirs    []os.FileInfo // of the workspace, the home and where the command starts; nil for none
	granted map[guard.Rule][]place
}

func placesOf(g *guard.Grant) places {
	p := places{own: g.Paths(), granted: map[guard.Rule][]place{}}
	for _, dir := range []string{p.own.Workspace, p.own.Home, g.Dir()} {
		info, err := os.Stat(dir)
		if err != nil {
			info = nil
		}
		p.dirs = append(p.dirs, info)
	}
	for _, e := range g.Entries() {
		if e.Access == guard.ReadOnly || e.Access == guard.ReadWrite {
			p.granted[e.Rule] = append(p.granted[e.Rule], place{e.Path, e.Access, e.ID})
		}
	}
	return p
}

// changed is a refusal where p, which the guard found now, isn't before.
func (p places) changed(before places) error {
	for _, name := range []struct{ was, is string }{
		{before.own.Workspace, p.own.Workspace},
		{before.own.Home, p.own.Home},
		{before.own.Run, p.own.Run},
		{before.own.Toolbelt, p.own.Toolbelt},
	} {
		if name.was != name.is {
			return changedMeanwhile(name.was)
		}
	}
	for i, path := range []string{p.own.Workspace, p.own.Home, "the directory where the command starts"} {
		was, is := before.dirs[i], p.dirs[i]
		if (was == nil) != (is == nil) || was != nil && !os.SameFile(was, is) {
			return changedMeanwhile(path)
		}
	}
	for rule, list := range p.granted {
		was, known := before.granted[rule]
		for _, at := range list {
			// A rule that is new and makes something read-only takes away: a mount
			// shows there what may not be written. A guarded name always does.
			if rule.Class == guard.ClassGuarded && at.access == guard.ReadOnly {
				continue
			}
			if slices.Contains(was, at) || !known && at.access == guard.ReadOnly && !before.grants(at.path) {
				continue
			}
			return changedMeanwhile(at.path)
		}
	}
	return nil
}

// grants reports whether a path is one that is granted by itself.
func (p places) grants(path string) bool {
	for _, list := range p.granted {
		if slices.ContainsFunc(list, func(at place) bool { return at.path == path }) {
			return true
		}
	}
	return false
}

func changedMeanwhile(path string) error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "changed_meanwhile", Subject: path,
		Why: fmt.Sprintf("cannot launch again after bubblewrap had failed: %q isn't what it was", path),
		Fix: "try again once nothing replaces it",
	}
}
