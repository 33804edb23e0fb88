package guard

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// unmappedUser reports the overflow user in a user namespace that maps fewer
// users than the first one does: then it may stand for anybody.
func unmappedUser(uid uint32) bool { return uid == overflowUser() && !mapsEveryUser() }

// overflowUser is who the kernel shows instead, proc_sys_kernel(5).
var overflowUser = sync.OnceValue(func() uint32 {
	const usual = 65534
	b, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return usual
	}
	return uint32(n)
})

// mapsEveryUser: the first namespace maps all 4294967295 users in one line. A
// map that can't be read counts as a smaller one.
var mapsEveryUser = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err == nil && len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
})
