//go:build !linux

package bwrap

// Leftovers has nothing to find where nothing runs.
func Leftovers(string) ([]string, error) { return nil, nil }
