package seccomp_test

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/stub/seccomp"
)

// TestSampleTellsAFilter: without one the kernel answers each probe otherwise,
// and does nothing.
func TestSampleTellsAFilter(t *testing.T) {
	t.Parallel()
	told := 0
	for _, p := range seccomp.Sample(runtime.GOARCH, seccomp.Base) {
		fd, _, errno := unix.RawSyscall6(uintptr(p.Number), uintptr(p.Args[0]), uintptr(p.Args[1]),
			uintptr(p.Args[2]), uintptr(p.Args[3]), uintptr(p.Args[4]), uintptr(p.Args[5]))
		if errno == 0 && p.Name != "unshare" {
			unix.Close(int(fd))
		}
		if uint16(errno) != uint16(p.Want) {
			told++
			continue
		}
		t.Logf("%s: %v without a filter, too", p.Name, errno)
	}
	// A kernel may lack a call, or a machine forbid it to everybody.
	if told < 10 {
		t.Errorf("only %d probes tell a filter from none", told)
	}
}
