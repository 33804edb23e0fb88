//go:build unix && !linux

package egress

// queuedRequest is FIONREAD of <sys/filio.h>, _IOR('f', 127, int).
const queuedRequest = 0x4004667f
