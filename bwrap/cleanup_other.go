//go:build !linux

package bwrap

// Reclaim has nothing to do where nothing runs.
func Reclaim(string) ([]string, error) { return nil, nil }

// SetAside has nothing to set aside where nothing runs.
func SetAside(string, bool) ([]string, error) { return nil, nil }

// Leftovers has nothing to find where nothing runs.
func Leftovers(string) ([]string, error) { return nil, nil }
