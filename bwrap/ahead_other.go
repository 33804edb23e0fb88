//go:build !linux

package bwrap

import "errors"

// fingerprint needs Linux, as everything that runs bubblewrap does.
func fingerprint(string) (string, error) { return "", errors.ErrUnsupported }
