package bwrap

import (
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// sampleCalls are the calls that the stub tries, with the answers that the
// filter of this mode gives.
func sampleCalls(arch string, mode seccomp.Mode) []wire.Call {
	var list []wire.Call
	for _, p := range seccomp.Sample(arch, mode) {
		list = append(list, wire.Call{Name: p.Name, Number: p.Number, Args: p.Args, Errno: uint32(p.Want)})
	}
	return list
}
