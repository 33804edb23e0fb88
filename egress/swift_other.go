//go:build !linux

package egress

import "net"

func swift(net.Listener) {}
