package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/guard/persist"
	"pinfold/plan"
)

// laterBudget bounds the search at the end of a run. In it, some 100,000
// entries are looked at.
const laterBudget = 200 * time.Millisecond

// laterShown is how many findings the notice names.
const laterShown = 3

// grantedTrees are the directories and files that the command may write and
// that stay, the workspace first.
func grantedTrees(g *guard.Grant, fresh []bwrap.Fresh) []string {
	var roots []string
	for _, e := range g.Entries() {
		made := slices.ContainsFunc(fresh, func(f bwrap.Fresh) bool { return f.Path == e.Path })
		switch {
		case e.Access != guard.ReadWrite || e.Kind != guard.Dir && e.Kind != guard.File || made:
		case e.Path == g.Paths().Workspace:
			roots = slices.Insert(roots, 0, e.Path)
		default:
			roots = append(roots, e.Path)
		}
	}
	return roots
}

// laterState is what the report at the end needs.
type laterState struct {
	later     *persist.Watch
	workspace string
	roots     []string // what the command may write
	// directories are those that were there.
	directories *guard.Directories
}

// reportLater says what the run left behind that programs on the host will
// execute by themselves: in the result, as events, and in one line.
func (r *oneRun) reportLater() {
	if r.outcome.result.Phase != plan.PhaseRun {
		return // nothing ran
	}
	if d := r.directories; d != nil {
		r.later.Places = d
	}
	report := r.later.Report(r.roots, r.later.Budget(laterBudget))
	for _, f := range report.Findings {
		r.outcome.result.Persistence = append(r.outcome.result.Persistence, plan.PersistenceResult{Path: f.Path, Change: f.Change, What: f.What})
		if r.events != nil {
			r.events.Emit(event.Event{Kind: event.Persistence, Action: event.Noticed, Target: f.Path, Reason: f.Change, Rule: f.What})
		}
	}
	r.outcome.result.PersistencePartial = report.Partial
	if report.Partial {
		defer r.p.notice("not all that this could change was searched for what host tools run")
	}
	if len(report.Findings) == 0 {
		return
	}
	var parts []string
	for _, f := range report.Telling(laterShown) {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", f.Change, r.shown(f.Path), f.What))
	}
	if rest := len(report.Findings) - len(parts); rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	r.p.notice("host tools will run what this changed: %s", strings.Join(parts, ", "))
}

// shown is a path as people know it: from the workspace, where it lies there.
func (r *oneRun) shown(path string) string {
	if rel, err := filepath.Rel(r.workspace, path); err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	return listed(path)
}

// listed is a name in a list of such: in quotes where it could be taken for
// more of the list. The command chose it.
func listed(name string) string {
	if strings.ContainsAny(name, ` ,()"\`) || name != oneLine(name) {
		return strconv.Quote(name)
	}
	return name
}
