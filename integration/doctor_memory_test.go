//go:build linux

package integration_test

import (
	"os"
	"strings"
	"testing"
)

// TestDoctorRemembersTheKernelAlone: what doctor was told of the kernel words no
// refusal under a filter, and what is met under one isn't remembered for
// launches without.
func TestDoctorRemembersTheKernelAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.tools(t)
	memory := l.state + "/kernel-answers"
	plain, filtered := l.patient(t, where{}), l.patient(t, where{filter: "openat2"})
	refused := func(when string) {
		t.Helper()
		if worked, why := filtered.launches(t, l); worked[0] || !strings.Contains(why, "system calls: missing: openat2") {
			t.Errorf("%s: %v, %s", when, worked, why)
		}
	}

	mkdir(t, l.state)
	refused("nothing is remembered")
	if _, works := filtered.doctor(t, l); works {
		t.Error("doctor says yes under a filter")
	}
	if _, err := os.Lstat(memory); err == nil {
		t.Errorf("remembered under a filter: %s", read(t, memory))
	}
	if _, works := plain.doctor(t, l); !works {
		t.Error("doctor says no without a filter")
	}
	status := read(t, "/proc/self/status")
	if !strings.Contains(status, "\nSeccomp:\t0\n") || !strings.Contains(status, "\nTracerPid:\t0\n") {
		if _, err := os.Lstat(memory); err == nil {
			t.Error("remembered under the filter of the tests themselves")
		}
		return
	}
	before := read(t, memory)
	if !strings.Contains(before, "\nopenat2 1\n") {
		t.Errorf("doctor remembers %s", before)
	}
	if info, err := os.Lstat(memory); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	refused("the kernel has it")
	if _, works := filtered.doctor(t, l); works {
		t.Error("doctor believes what it remembers")
	}
	if after := read(t, memory); after != before {
		t.Errorf("under a filter it was changed to %s", after)
	}
	if worked, why := plain.launches(t, l); !worked[0] || !worked[1] {
		t.Errorf("after that: %v, %s", worked, why)
	}
}

// TestDoctorMemoryDecidesNothing: a launch runs, and is refused, whatever is in
// the memory; a lie in it at most leaves a row unnamed.
func TestDoctorMemoryDecidesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.tools(t)
	memory := l.state + "/kernel-answers"
	s, filtered := l.patient(t, where{}), l.patient(t, where{filter: "openat2"})
	if _, works := s.doctor(t, l); !works {
		t.Fatal("doctor says no")
	}
	text := "made up\n"
	if _, err := os.Lstat(memory); err == nil {
		text = read(t, memory)
	}
	for _, lie := range []string{strings.ReplaceAll(text, " 1\n", " 0\n"), text} {
		write(t, memory, lie, 0o600)
		if worked, why := s.launches(t, l); !worked[0] || !worked[1] {
			t.Errorf("a launch was refused for what is remembered: %s\n%s", why, lie)
		}
		if worked, _ := filtered.launches(t, l); worked[0] || worked[1] {
			t.Errorf("a launch ran for what is remembered: %s", lie)
		}
	}
}
