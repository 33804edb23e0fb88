package bwrap

import (
	"crypto/sha256"
	"encoding/hex"
)

// A mount point that isn't there yet must be made on the host, where host and
// sandbox both see it, and taken away when the last sandbox that needs it has
// ended: removing one under a living sandbox strips its cover.
//
// Each one has a lease: a file in the state directory that says what was made,
// on which every run that covers the path holds a shared lock as long as it
// lives. The kernel drops the lock with the process, so whoever gets an
// exclusive one knows that nobody is left, crash or not. One more lock keeps
// two launches from deciding at once.
const (
	leaseDir  = "covers"
	leaseLock = "lock"
	leaseExt  = ".lease"
)

// note is what a lease says of the mount point. Dev and Ino are zero between
// the intent and the deed.
type note struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// Intent is when it was about to be made, in nanoseconds: what is older
	// was made by somebody else.
	Intent int64 `json:"intent_ns"`
}

// leaseName is the file of a path's lease.
func leaseName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + leaseExt
}
