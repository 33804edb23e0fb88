//go:build !linux

package bwrap

import (
	"errors"
	"os"
)

// fingerprint needs Linux, as everything that runs bubblewrap does.
func fingerprint(string) (string, error) { return "", errors.ErrUnsupported }

func holdStub() *os.File { return nil }
