// Command pinfold runs a command that nobody vouches for inside a boundary
// that an operator's policy describes.
//
//	pinfold wrap --policy p.json -- npm install
//
// The package is a thin caller of the others: it turns flags into a
// [pinfold/guard.Request], hands it to the guard, and prints what comes back.
// What may run, and how, is never decided here.
package main
