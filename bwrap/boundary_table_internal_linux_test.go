package bwrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/plan"
)

// tableOf is a boundary that looks at this process's own root, and at a mount
// table that the test writes.
func tableOf(t *testing.T) (b *boundary, table string, write func(text string)) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "mountinfo")
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(own))
	b = &boundary{launch: &Launch{Plan: &plan.Plan{}}}
	b.launch.Setup.Landlock.Enabled = true // and nothing can be written
	if b.root, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	if b.table, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFD(&b.root); closeFD(&b.table) })
	return b, string(own), write
}

func (b *boundary) compared() *loss {
	return (&mending{boundary: b, gone: map[string]bool{}, harmless: map[int]guard.MountPoint{}}).compareTable()
}

// A mount of the host's that lies beneath one of the sandbox's, at a path of
// the sandbox's own, is nobody's business when it goes; the sandbox's is.
func TestMountsThatGo(t *testing.T) {
	t.Parallel()
	b, table, write := tableOf(t)
	write(table + "99999 1 0:999 / /dev/shm/x rw,relatime master:1 - tmpfs x rw\n")
	if l := b.firstTable(); l != nil {
		t.Fatal(l)
	}
	write(table)
	if l := b.compared(); l != nil {
		t.Errorf("a hidden mount went: %v", l)
	}
	var rest []string
	for line := range strings.Lines(table) {
		if !strings.Contains(line, " /proc ") {
			rest = append(rest, line)
		}
	}
	write(strings.Join(rest, ""))
	if l := b.compared(); l == nil || l.path != "/proc" || l.code != "cover_detached" {
		t.Errorf("the sandbox's own went: %v", l)
	}
}

// TestNewMountsKnowsWhatWasMended: a cover that mending has put on is no mount of
// the host's, noted in the table or not.
func TestNewMountsKnowsWhatWasMended(t *testing.T) {
	t.Parallel()
	root, err := openDir("/")
	if err != nil {
		t.Fatal(err)
	}
	table, err := openOf(unix.Getpid(), "mountinfo", unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll([]int{root, table}) })
	b := &boundary{root: root, table: table, userNS: -1, mountNS: -1, mounts: map[int]seenMount{}}
	cover := point{path: "/proc", want: b.identify("/proc")}
	b.points = []point{cover}
	list, err := b.readTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if uint64(m.ID) != cover.want.mount {
			b.mounts[m.ID] = seenMount{m, false}
		}
	}
	if l := (&mending{boundary: b}).newMounts(); l != nil {
		t.Errorf("what was mended: %v", l)
	}
	b.points[0].want.mount++
	if l := (&mending{boundary: b}).newMounts(); l == nil || l.code != "late_mount" {
		t.Errorf("what the host has mounted: %v", l)
	}
}
