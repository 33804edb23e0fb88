package bwrap

import (
	"slices"

	"pinfold/stub/wire"
)

// landlockScopeABI is the Landlock ABI (Linux 6.12) that keeps signals and
// abstract sockets inside.
const landlockScopeABI = 6

// landlock repeats the write grants for the second layer. The mounts made
// read-only within them stay so: Landlock grants nothing by itself.
func landlock(b *builder, m Machine) wire.Landlock {
	if m.LandlockABI < wire.LandlockABI {
		return wire.Landlock{}
	}
	ll := wire.Landlock{
		Enabled: true,
		// A process writes to its own /proc/self, and to terminals made inside.
		Writable:   []string{"/dev/pts", "/proc"},
		WriteFiles: slices.Clone(devNodes),
		Scope:      m.LandlockABI >= landlockScopeABI,
	}
	for p, s := range b.surfaces {
		if s == surfacePrivate || s == surfaceHostRW {
			ll.Writable = append(ll.Writable, p)
		}
	}
	ll.WriteFiles = append(ll.WriteFiles, b.writableFiles...)
	slices.SortFunc(ll.Writable, comparePaths)
	slices.SortFunc(ll.WriteFiles, comparePaths)
	return ll
}
