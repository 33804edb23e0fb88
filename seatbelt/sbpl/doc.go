// Package sbpl reads and evaluates Apple's sandbox profile language, as far
// as pinfold's own profiles use it and a little further. It exists because a
// profile can be proven without a Mac only against a model of what Seatbelt
// does with it.
//
//	p, err := sbpl.Parse(text)
//	v := p.Eval(sbpl.Query{Op: "file-read-data", Path: "/private/etc/hosts"}, params, sbpl.LastMatch)
//
// # What is modelled
//
// A profile is a list of allow and deny rules. Each names operations (a
// trailing "*" names every operation beneath, see [Covers]) and optional
// filters: literal, subpath, prefix, regex, vnode-type, remote and local
// addresses, names of services, target, sysctl-name, extension,
// socket-domain, combined by require-all,
// require-any and require-not. Several filters of one rule are alternatives.
// Paths reach the kernel canonical: symbolic links are resolved before a rule
// is asked, so a rule on a path that goes through a link never matches
// (sandbox-exec(1); the sandbox guide's advice to name /private/tmp).
//
// # Where the sources disagree
//
// The language has no public specification. Profiles that Apple ships under
// /usr/share/sandbox and /System/Library/Sandbox/Profiles are written broad
// to specific, so that the last matching rule wins. Public reports describe
// two departures: a rule for a named operation beating a later rule for a
// wildcard that includes it, and a filtered rule beating a later one without
// a filter. Each is a [Semantics] here, and a profile counts as right only if
// it gives the same verdict under all of [AllSemantics].
//
// # Limitations
//
// (import), (trace), entitlements, message filters and Scheme beyond quoting
// and (define) of nothing are refused by the parser, never skipped.
// Expressions are Go's, of which profiles should use no more than literals,
// sets, groups, alternatives and anchors.
package sbpl
