// Package integration attacks real sandboxes. It has tests only: a lab laid
// out like a real home and state directory, a table of attacks that is run
// twice (inside, where each must be held, and in an unsandboxed control, where
// each must work), real programs inside, bad input, and the shared red-team
// cases.
//
//	PINFOLD_INTEGRATION=1 go test ./integration/
//
// With PINFOLD_INTEGRATION set a missing tool fails; without it the tests that
// need a sandbox are skipped. More variables, for runs that prepare things as
// root and test as somebody else:
//
//	PINFOLD_BIN          the program to test (else it is built)
//	PINFOLD_ATTACK       the attack program (else it is compiled)
//	PINFOLD_ATTACK_SUID  the same, owned by root and setuid
//	PINFOLD_LAB          where labs are laid out (else the home directory)
//	PINFOLD_REDTEAM      the folder of the shared red-team cases
//	PINFOLD_REDTEAM_USER who runs the wrapper there
//
// Nothing imports this package, and it imports nothing of the product but
// types: what is tested is the program that people run.
package integration
