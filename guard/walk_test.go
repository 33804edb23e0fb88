package guard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkWalk walks a tree of 200,000 files; GUARD_WALK_TREE names one that
// exists already.
func BenchmarkWalk(b *testing.B) {
	root := os.Getenv("GUARD_WALK_TREE")
	if root == "" {
		b.Skip("set GUARD_WALK_TREE to a directory; it is filled when empty")
	}
	fill(b, root)
	o, err := newHostFS().lookup(root)
	if err != nil {
		b.Fatal(err)
	}
	var find time.Duration
	for b.Loop() {
		r, err := newHostFS().walk(context.Background(), walkRequest{
			roots: []walkRoot{{path: o.path, id: o.id}}, limit: defaultEntries, uid: uint32(os.Getuid()),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		start := time.Now()
		if err := exec.CommandContext(b.Context(), "find", root, "-type", "f", "-links", "+1").Run(); err != nil {
			b.Fatal(err)
		}
		find += time.Since(start)
		b.ReportMetric(float64(r.entries), "entries")
		b.StartTimer()
	}
	b.ReportMetric(float64(find.Nanoseconds())/float64(b.N), "find-ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(find.Nanoseconds()), "of-find")
}

func fill(b *testing.B, root string) {
	b.Helper()
	if list, err := os.ReadDir(root); err != nil || len(list) > 0 {
		return
	}
	for d := range 4000 {
		dir := filepath.Join(root, fmt.Sprint(d/100), fmt.Sprint(d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range 50 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d.go", f)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
}
