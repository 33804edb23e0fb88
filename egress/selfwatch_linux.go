package egress

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// addrWatch is a socket that hears of changes to this machine's addresses,
// links and routes (rtnetlink(7)). Nil hears nothing, so all may have changed.
type addrWatch struct {
	file *os.File // closed when nobody has the watch any more
	fd   int
}

// watchedGroups are all that addresses and gateways come from.
const watchedGroups = unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR |
	unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE | unix.RTMGRP_IPV4_RULE

// newAddrWatch is nil where there can be none.
func newAddrWatch() *addrWatch {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: watchedGroups}); err != nil {
		unix.Close(fd)
		return nil
	}
	// Gateways may stand in next hops of their own (Linux 5.3), a group beyond
	// the mask of bind; a kernel that hasn't the group hasn't those.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.RTNLGRP_NEXTHOP)
	return &addrWatch{file: os.NewFile(uintptr(fd), "addresses"), fd: fd}
}

// maxChanges bounds what is taken off at once: on a machine whose routes change
// all the time they are read all the time.
const maxChanges = 64

// changed says whether anything may have changed since it was last asked. A
// queue that has overflown (ENOBUFS) is a change too, and so is any error.
func (w *addrWatch) changed() bool {
	if w == nil {
		return true
	}
	var one [1]byte // the kernel cuts the rest off
	for n := 0; n < maxChanges; n++ {
		_, _, err := unix.Recvfrom(w.fd, one[:], unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return n > 0
		}
	}
	return true
}
