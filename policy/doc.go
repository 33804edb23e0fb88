// Package policy holds what an operator grants: the types of a policy
// document, its strict parser, its JSON Schema, the default denies and the
// [Refusal] that every other package answers with.
//
//	p, err := policy.Load("p.json")
//
// The package is pure: apart from [Load] and the presets it embeds it touches
// neither the file system nor the network. What a path really is, is decided
// by package guard alone.
package policy
