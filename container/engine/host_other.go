//go:build !linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"pinfold/container"
)

func kernelRelease() (string, error) {
	return "", fmt.Errorf("containers on %s run on another kernel: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Listening are none that could be told.
func Listening(context.Context, *container.Reach, bool) ([]string, error) {
	return nil, errors.ErrUnsupported
}

func openFiles() int64 { return 1 << 20 }

func processes() int64 { return 1 << 20 }
