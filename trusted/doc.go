// Package trusted says which programs of the host may be run by pinfold
// itself, or by something that pinfold runs outside the boundary: only ones
// that nobody but root and the caller can replace, the sandboxed side least of
// all.
package trusted
