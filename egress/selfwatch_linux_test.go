package egress_test

import (
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold/egress"
)

// What changes about this machine's addresses counts from the next flow on.
// The test runs itself in a network of its own.
func TestOwnAddressesFollowChanges(t *testing.T) {
	t.Parallel()
	if os.Getenv("OWN_NETWORK") == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "-rn", os.Args[0], "-test.run", "^TestOwnAddressesFollowChanges$", "-test.v")
		cmd.Env = append(os.Environ(), "OWN_NETWORK=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "every change seen") {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	own := &egress.OwnAddrs{}
	for _, step := range []struct {
		change         string
		addr           string
		own, isGateway bool
	}{
		{"ip link set lo up && ip addr add 203.0.113.7/32 dev lo && ip route add 203.0.113.0/24 dev lo", "203.0.113.7", true, false},
		{"ip addr add 2001:db8::7/128 dev lo nodad && ip -6 route add 2001:db8::/64 dev lo", "2001:db8::7", true, false},
		{"ip route add default via 203.0.113.1 dev lo", "203.0.113.1", false, true},
		{"ip route replace default via 203.0.113.2 dev lo", "203.0.113.1", false, false},
		{"true", "203.0.113.2", false, true},
		{"ip route add default via 203.0.113.3 dev lo table 77", "203.0.113.3", false, true},
		{"ip route del default && ip nexthop add id 9 via 203.0.113.4 dev lo && ip route add default nhid 9", "203.0.113.4", false, true},
		{"ip nexthop replace id 9 via 203.0.113.5 dev lo", "203.0.113.5", false, true},
		{"ip addr del 203.0.113.7/32 dev lo", "203.0.113.7", false, false},
		{"ip link set lo down", "2001:db8::7", false, false},
	} {
		if _, err := own.Get(); err != nil {
			t.Fatal(err)
		}
		own.Fresh(time.Hour)
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", step.change).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", step.change, err, out)
		}
		h, err := own.Get()
		if err != nil {
			t.Fatal(err)
		}
		addr := netip.MustParseAddr(step.addr)
		if slices.Contains(h.Own, addr) != step.own || slices.Contains(h.Gateways, addr) != step.isGateway {
			t.Errorf("after %q: %s is among %v: %v, %v: %v", step.change, addr, h.Own, step.own, h.Gateways, step.isGateway)
		}
	}
	t.Log("every change seen")
}

// Where nothing changes nothing is read again, or the watch would be for
// nothing.
func BenchmarkOwnAddresses(b *testing.B) {
	own := &egress.OwnAddrs{}
	for b.Loop() {
		if _, err := own.Get(); err != nil {
			b.Fatal(err)
		}
	}
}
