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
// socket-domain, syscall-number, combined by require-all,
// require-any and require-not. Several filters of one rule are alternatives.
// Paths reach the kernel canonical: symbolic links are resolved before a rule
// is asked, so a rule on a path that goes through a link never matches
// (sandbox-exec(1); the sandbox guide's advice to name /private/tmp).
//
// # Where the sources disagree
//
// The language has no public specification. Profiles that Apple ships under
// /usr/share/sandbox and /System/Library/Sandbox/Profiles are written broad
// to specific, so that the last matching rule wins ([LastMatch]; Apple
// Sandbox Guide 1.0, reverse.put.as, 2011, says so too). Public reports, each
// with what sandbox-exec did, describe departures from that:
//
//   - [SpecificOperation]: a rule for a named operation beats a later rule for
//     a wildcard that includes it (GreyhavenHQ/greywall pull request 20: "deny
//     file-read*" after "allow file-read-data" denied nothing; nolabs-ai/nono
//     issue 697, the other way about).
//   - [FilteredFirst]: a rule with a filter beats a later one without.
//   - [SpecificFilter]: an allow by require-all beat a later deny by subpath,
//     and a literal beat both (navikt/cplt pull request 455).
//   - [OpenDefault]: (deny default) doesn't reach every operation. Firefox's
//     profiles (security/sandbox/mac/SandboxPolicyContent.h) list four that it
//     doesn't, and by one of them, process-info-pidinfo, sandboxed programs
//     read the environment of others (nolabs-ai/nono issue 1821,
//     eugene1g/agent-safehouse pull request 150). Anthropic's sandbox-runtime
//     starts with (deny default), never allows file-map-executable, and its
//     users' programs do load their libraries.
//
// Each is a [Semantics] here, and a profile counts as right only if it gives
// the same verdict under all of [AllSemantics]. A reading that nobody has
// described isn't among them: that is where this model can be wrong.
//
// # Limitations
//
// (import), (trace), entitlements, message filters and Scheme beyond
// (if (defined? 'operation) rule) are refused by the parser, never skipped.
// Expressions are Go's, of which profiles should use no more than literals,
// sets, groups, alternatives and anchors.
package sbpl
