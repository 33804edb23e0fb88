// Package guard is the one gate: [GuardLaunch] turns a policy, a request and
// a protected set into a [Grant], or refuses. It is the only package that
// looks at the file system to decide what a path really is; every back end is
// a pure translation of the Grant.
//
// Paths are resolved component by component through directory descriptors and
// held open (O_PATH) until the Grant is closed, so what was checked is what
// the device and inode numbers in the Grant name. The guarantee itself is
// made inside the boundary: just before the command starts, the stub compares
// device, inode and mount flags of every entry with the Grant.
package guard
