// Package seatbelt is the macOS back end: it writes a sandbox profile from
// the same [guard.Grant] that feeds every other back end.
//
//	text, err := seatbelt.Profile(grant, seatbelt.Options{ProxyPort: 3128})
//
// The profile denies by default, and by name what (deny default) may not
// reach, and goes from broad to specific. It uses literal and subpath filters
// with every path a parameter, and the same operation names wherever two rules
// can meet, so that it gives one answer under every reading of the language
// that public reports describe (see package seatbelt/sbpl, whose evaluator
// proves it). Expressions, in ASCII alone, deny the names that must not be made
// or replaced, in whatever spelling the volume takes for the same one; the one
// that allows anything is of terminals that the run has made itself.
//
// # What Seatbelt can't express
//
// A denied path answers EPERM, not EACCES, and can't be made to look empty:
// where Linux shows an empty file or directory, macOS refuses to open it.
// There are no private mounts, so /tmp and the per-user temporary directories
// of the host are denied and TMPDIR names a fresh directory of the launch. A
// container tier grant, and a path that isn't UTF-8, are refused.
//
// This package has been run on no Mac yet: the evidence is the evaluator.
package seatbelt
