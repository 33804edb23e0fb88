//go:build !linux

package bwrap

// Reclaim has nothing to do where nothing runs.
func Reclaim(string) ([]string, error) { return nil, nil }

// Leftovers has nothing to find where nothing runs.
func Leftovers(string) ([]string, error) { return nil, nil }
