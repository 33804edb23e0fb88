package lease

import (
	"crypto/sha256"
	"encoding/hex"

	"pinfold/plan"
)

// Beneath the state directory.
const (
	dirName   = "covers"
	damageExt = ".damaged"
	lockName  = "lock"
	lookName  = "looking"
	leaseExt  = ".lease"
	tenantExt = ".tenant"
)

// Point is a mount point that shows on the host.
type Point struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir"`
}

// Request says what one run needs.
type Request struct {
	State string // pinfold's state directory
	// Missing are the mount points to make, parents before children.
	Missing []Point
	// Covered are the paths on the host that the run covers, Missing or not:
	// another run may have made what stands there.
	Covered []string
	// Record takes what is made and removed into its journal; it may be nil.
	Record *plan.Record
	// Outlives: what is covered may live on when this process has gone, as a
	// container does. [Held.File] is for its first process then.
	Outlives bool
}

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
	// Tenants are the files that what outlives its supervisor holds a lock on.
	Tenants []string `json:"tenants,omitempty"`
}

// nameOf is the file of a path's lease.
func nameOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + leaseExt
}
