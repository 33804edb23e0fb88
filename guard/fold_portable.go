//go:build !linux

package guard

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// spelled is the name under which an object really stands in a directory that
// folds case, or composes letters, as those of APFS and HFS+ do. The kernel
// asks a sandbox profile by that name.
func spelled(dir, name string, st *syscall.Stat_t) (string, error) {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 })
	other := otherCase(name)
	if plain && (other == name || !isObject(join(dir, other), st)) {
		return name, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", fmt.Errorf("cannot open %q: %w", dir, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return "", fmt.Errorf("cannot list %q: %w", dir, err)
	}
	return onDisk(names, name, func(n string) bool { return isObject(join(dir, n), st) }), nil
}

func isObject(path string, st *syscall.Stat_t) bool {
	other, err := statOf(path)
	return err == nil && idOfStat(other) == idOfStat(st)
}

// dataVolume is where macOS mounts the volume that people write to. Firmlinks
// show its directories at the root as well (/Users), and those names are the
// ones that the kernel gives.
var dataVolume = []string{"System", "Volumes", "Data"} //nolint:gochecknoglobals // a table

// withoutDataVolume leaves the volume's own path off a name that shows the
// same object without it.
func withoutDataVolume(names []string, st *syscall.Stat_t) []string {
	n := len(dataVolume)
	if len(names) <= n || !slices.Equal(names[:n], dataVolume) || !isObject("/"+strings.Join(names[n:], "/"), st) {
		return names
	}
	return slices.Clone(names[n:])
}
