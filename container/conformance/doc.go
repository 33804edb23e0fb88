// Package conformance is what a container provider has to pass before a
// launch may rely on it: what its methods promise, checked on a real engine.
//
//	err := conformance.Check(ctx, provider, subject)
//
// A [Subject] says how to have the provider run a shell script. Every
// container that the check makes carries labels of its own and is removed
// again.
//
// A suite that passes everything proves nothing, so [Broken] are providers
// that are wrong in one way each, made from a right one: Check must fail each
// of them. The tests of this project run both on docker and podman.
package conformance
