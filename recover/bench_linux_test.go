package recover_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/recover"
)

// BenchmarkAdopt proves a launch with a tree of 50 processes, and reports the
// ratio to reading once, for each of them, the entries of /proc that the
// proofs are about.
func BenchmarkAdopt(b *testing.B) {
	r := start(b, "i=0; while [ $i -lt 48 ]; do sleep 1000 & i=$((i+1)); done; "+untilEOF)
	claim := recover.Claim{Record: r.record, Parent: r.parent.Process.Pid}
	v, err := recover.Prove(b.Context(), claim)
	if err != nil || !v.Adoptable || v.Processes < 50 {
		b.Fatalf("%+v, %v", v, err)
	}
	pids := below(b, v.Root)
	var reading time.Duration
	for b.Loop() {
		if v, err := recover.Prove(b.Context(), claim); err != nil || !v.Adoptable {
			b.Fatalf("%+v, %v", v, err)
		}
		b.StopTimer()
		began := time.Now()
		readOnce(b, pids)
		reading += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(reading), "×reading")
}

// below lists every process below one.
func below(b *testing.B, pid int) []int {
	b.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	var all []int
	for _, t := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(s)
			if err != nil {
				b.Fatal(err)
			}
			all = append(append(all, n), below(b, n)...)
		}
	}
	return all
}

func readOnce(b *testing.B, pids []int) {
	b.Helper()
	for _, pid := range pids {
		for _, name := range []string{"stat", "status"} {
			if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err != nil {
				b.Fatal(err)
			}
		}
		for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
			var st unix.Stat_t
			if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, name), &st); err != nil {
				b.Fatal(err)
			}
		}
	}
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pids[len(pids)-1])); err != nil {
		b.Fatal(err)
	}
}
