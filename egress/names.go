package egress

import (
	"net/netip"
	"sync"
)

// madeUp is where the addresses that names get inside come from: the network
// for benchmarks of RFC 2544, which nobody routes.
var madeUp = netip.MustParsePrefix("198.18.0.0/15")

// maxNames bounds the names that one run may have resolved: a wildcard would
// let it have any number. Far more than any build asks for.
const maxNames = 16384

// names gives each name an address of its own, for as long as the run lasts:
// programs keep what they resolved.
type names struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
	last   netip.Addr
}

func newNames() *names {
	return &names{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{}, last: madeUp.Addr()}
}

// address is the name's; false when there are too many.
func (n *names) address(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.byName[name]; ok {
		return a, true
	}
	if len(n.byName) >= maxNames {
		return netip.Addr{}, false
	}
	n.last = n.last.Next()
	n.byName[name], n.byAddr[n.last] = n.last, name
	return n.last, true
}

// name is whose address it is.
func (n *names) name(a netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr[a]
	return name, ok
}
