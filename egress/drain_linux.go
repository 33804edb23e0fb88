package egress

import "golang.org/x/sys/unix"

const queuedRequest = unix.TIOCINQ
