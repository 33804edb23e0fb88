//go:build linux

package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Hogs with a share keep to it, and their neighbour works on: it is measured
// in turns, with the hogs at it and with the hogs stopped, so that whatever
// else goes on counts on both sides. Without a limit the same hogs use far
// more, or there was nothing to keep them from.
func TestNeighbourKeepsItsShare(t *testing.T) {
	l := newLab(t)
	if !hasCgroups(t, l) {
		t.Log("no cgroup for this user")
		return
	}
	bound, free := l.besideHogs(t, doc{"cpus": 0.1, "timeout": "60s"}), l.besideHogs(t, doc{"timeout": "60s"})
	t.Logf("hogs with a share of 0.1 use %.2f of a processor and leave their neighbour %.2f of its work; free ones use %.2f and leave %.2f",
		bound.used, bound.share, free.used, free.share)
	if bound.share < 0.8 || bound.used > 0.16 || free.used < 2*bound.used {
		t.Error("wanted a share of 0.8 at least, a use of 0.16 at most, and twice that without a limit")
	}
	if bound.outcome.hits("cpus") < 1 {
		t.Errorf("nobody was held back: %+v", bound.outcome)
	}
}

// beside is what came of running beside hogs.
type beside struct {
	share   float64 // of its own work that the neighbour gets done
	used    float64 // of a processor, by the hogs, while they may run
	outcome outcome
}

const hogs = 16

// besideHogs runs the hogs, and a neighbour in turns with and without them.
func (l *lab) besideHogs(t *testing.T, limits doc) (b beside) {
	t.Helper()
	p := workspaceOnly()
	p["limits"] = limits
	file, ready := filepath.Join(l.root, "result.json"), filepath.Join(l.run, "ready")
	_ = os.Remove(ready)
	r := l.start(t, launch{policy: p, flags: []string{"--quiet", "--result", file, "--grace", "300ms"}, argv: []string{
		"sh", "-c", "i=0; while [ $i -lt " + strconv.Itoa(hogs) + " ]; do (while :; do :; done) & i=$((i+1)); done; : >" + ready + "; wait",
	}})
	r.await(t, ready)
	pids := descendants(t, r.Process.Pid)
	pids = pids[len(pids)-hogs:] // those furthest down
	before := processorTime(t, pids)
	b.share = turnsBeside(t, pids)
	b.used = float64(processorTime(t, pids)-before) / float64((turns * slice).Milliseconds())
	must(t, r.Process.Signal(unix.SIGTERM))
	<-r.done
	must(t, json.Unmarshal([]byte(read(t, file)), &b.outcome))
	return b
}

// The turns, each of five of the kernel's periods of 100 ms in which a share is
// kept to (cpu.cfs_period_us): one more may begin in each.
const (
	turns = 9
	slice = 500 * time.Millisecond
)

// turnsBeside lets the hogs go and stand in turn, and compares what is done
// meanwhile. It is the median of the pairs that counts.
func turnsBeside(t *testing.T, pids []int) float64 {
	t.Helper()
	var shares []float64
	for range turns {
		signalAll(t, pids, unix.SIGSTOP)
		alone := spin(slice)
		signalAll(t, pids, unix.SIGCONT)
		shares = append(shares, float64(spin(slice))/float64(alone))
	}
	slices.Sort(shares)
	return shares[turns/2]
}

func signalAll(t *testing.T, pids []int, sig unix.Signal) {
	t.Helper()
	for _, pid := range pids {
		must(t, unix.Kill(pid, sig))
	}
}

// spin counts how far one thread gets.
func spin(d time.Duration) (n int) {
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
	}
	return n
}

// processorTime is what processes have used together, in milliseconds:
// fields 14 and 15 of stat after the name, in ticks of 10 ms.
func processorTime(t *testing.T, pids []int) (ms int64) {
	t.Helper()
	for _, pid := range pids {
		f := statFields(t, pid)
		for _, s := range f[11:13] {
			n, err := strconv.ParseInt(s, 10, 64)
			must(t, err)
			ms += 10 * n
		}
	}
	return ms
}

func statFields(t *testing.T, pid int) []string {
	t.Helper()
	text := read(t, "/proc/"+strconv.Itoa(pid)+"/stat")
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}
