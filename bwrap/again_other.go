//go:build !linux

package bwrap

// MountTable is a watch that no other system needs.
type MountTable struct{}

// WatchMounts watches nothing.
func WatchMounts() *MountTable { return nil }

// Changed reports that nothing did.
func (*MountTable) Changed() bool { return false }

// Close does nothing.
func (*MountTable) Close() {}
