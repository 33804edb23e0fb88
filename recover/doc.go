// Package recover proves, after a restart, that a running process is the one
// in a record and is still inside the boundary in that record.
//
//	v, err := recover.Prove(ctx, recover.Claim{Record: dir, Parent: pid})
//	if err != nil { … couldn't tell: try again, adopt nothing … }
//	if !v.Adoptable { … v.Proof is the first one that failed … }
//
// The proofs, in the order in which they are tried, are the constants of type
// [Proof]. Every process that is looked at is held by a pidfd from before the
// first look until after the last, so that no pid can come to mean another
// process in between, and the tree is walked until two walks agree.
//
// # Limitations
//
// Linux tells nobody whether a process is under Landlock; what the record
// says of it is reported, not proven. A record is as good as its directory:
// it must be the caller's own, of mode 0700, and outside every grant, which
// the launch saw to. An adopter runs as the user who launched.
//
// The name of the package shadows the builtin recover in its files, so none
// of them handles panics.
package recover
