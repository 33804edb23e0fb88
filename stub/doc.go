// Package stub holds the program that runs inside the boundary just before
// the command, as bytes ready to be written into it.
//
// The program is stub/init. `make build` builds it for each architecture into
// stub/bin, from where this package embeds its own; the bytes are the same on every
// machine with the same Go. A bare clone compiles without it: [Binary] then
// says what to run.
package stub
