//go:build !linux

package guard

// hostMounts: these systems have no bind mounts.
func hostMounts() ([]mount, error) { return nil, nil }
