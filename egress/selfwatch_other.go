//go:build !linux

package egress

// addrWatch is nil here: addresses are read for each flow.
type addrWatch struct{}

func newAddrWatch() *addrWatch { return nil }

func (*addrWatch) changed() bool { return true }
