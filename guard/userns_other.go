//go:build !linux

package guard

// unmappedUser: only Linux has user namespaces.
func unmappedUser(uint32) bool { return false }
