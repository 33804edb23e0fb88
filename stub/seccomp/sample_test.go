package seccomp_test

import (
	"testing"

	"pinfold/stub/seccomp"
)

// TestSampleIsWhatTheFiltersAnswer asks each program itself.
func TestSampleIsWhatTheFiltersAnswer(t *testing.T) {
	t.Parallel()
	const allow, errno = 0x7fff0000, 0x00050000 // SECCOMP_RET_ALLOW, _ERRNO
	each(t, func(t *testing.T, f filter, mode seccomp.Mode) {
		if mode == seccomp.Notify || mode == seccomp.Inner {
			return // it is loaded on top of another, which is sampled
		}
		probes := seccomp.Sample(f.arch, mode)
		if len(probes) < 15 {
			t.Fatalf("only %d probes", len(probes))
		}
		for _, p := range probes {
			want := uint32(errno) | uint32(p.Want)
			if p.Want == 0 {
				want = allow
			}
			if mode == seccomp.Listed && p.Name == "socket AF_NETLINK NETLINK_SOCK_DIAG" {
				want = allow // the second program takes it
			}
			if got := f.run(t, seccomp.AuditArch(f.arch), p.Number, p.Args[:]...); got != want {
				t.Errorf("%s: the filter answers %#x, wanted %#x", p.Name, got, want)
			}
		}
	})
}
