//go:build !linux

package main

import "pinfold/guard"

// itself is for Linux: elsewhere a launch that could write this program is
// refused.
func itself() []guard.Kept { return nil }
