// Package persist finds what a run left behind for later: new or changed files
// in its write grants that programs on the host execute by themselves, the
// next time that somebody enters the directory, opens it in an editor, commits
// or pushes. A sandbox ends at the end of its run; these files don't.
//
//	w := persist.Begin(workspace)       // before the command runs
//	...
//	report := w.Report(roots, budget)   // after it has ended
//
// A file counts when its status change time, which no program can set, is not
// before the beginning. What the host itself changed meanwhile counts too.
//
// Limitations: the walk has a bounded time, and the report says when it wasn't
// enough; node_modules isn't entered; a program that the host's user calls by
// name (a Makefile, a script) isn't listed, nor is source that gets compiled.
package persist
