// Package supervise holds what the supervisors of all tiers do alike: they
// take this process's signals for the command, check the listeners that come
// out of a boundary, carry single connections across it, and put what the stub
// reports into words.
//
// It knows no tier. What differs between them (whom a signal is delivered to,
// where a connection leads) is the caller's, as are descriptors and processes.
package supervise
