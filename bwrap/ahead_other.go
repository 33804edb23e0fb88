//go:build !linux

package bwrap

import (
	"errors"
	"os"
)

// fingerprint needs Linux, as everything that runs bubblewrap does.
func fingerprint(string) (string, error) { return "", errors.ErrUnsupported }

func knownWhole(map[string]string) bool { return false }

func holdStub() *os.File { return nil }
