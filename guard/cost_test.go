package guard_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold/guard"
	"pinfold/policy"
)

// BenchmarkGuardLaunch is the guard's share of a small launch.
func BenchmarkGuardLaunch(b *testing.B) {
	home, err := os.UserHomeDir()
	if err != nil {
		b.Fatal(err)
	}
	ws, err := os.MkdirTemp(home, "guard-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(ws)
	p := &policy.Policy{Write: []policy.PathRule{{Text: "{workspace}", Source: "write[0]"}}}
	r := guard.Request{Argv: []string{"true"}, Workspace: ws, Env: []string{"HOME=" + home}, UID: os.Getuid(), GID: os.Getgid()}
	for b.Loop() {
		g, err := guard.GuardLaunch(context.Background(), p, r, nil)
		if err != nil {
			b.Fatal(err)
		}
		g.Close()
	}
}

// BenchmarkRules is what rules cost: denies of files that exist.
func BenchmarkRules(b *testing.B) {
	home, err := os.UserHomeDir()
	if err != nil {
		b.Fatal(err)
	}
	ws, err := os.MkdirTemp(home, "guard-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(ws)
	for _, n := range []int{10, 50, 100, 250} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := &policy.Policy{Write: []policy.PathRule{{Text: "{workspace}", Source: "write[0]"}}}
			for i := range n {
				f := fmt.Sprintf("%s/%d", ws, i)
				if err := os.WriteFile(f, nil, 0o600); err != nil {
					b.Fatal(err)
				}
				p.Read.Deny = append(p.Read.Deny, policy.PathRule{Text: f, Source: "read.deny[0]"})
			}
			r := guard.Request{Argv: []string{"true"}, Workspace: ws, Env: []string{"HOME=" + home}, UID: os.Getuid(), GID: os.Getgid()}
			for b.Loop() {
				g, err := guard.GuardLaunch(context.Background(), p, r, nil)
				if err != nil {
					b.Fatal(err)
				}
				g.Close()
			}
		})
	}
}

func manyDenies(tr *tree, n int) launch {
	paths := make([]string, 0, n)
	for i := range n {
		paths = append(paths, fmt.Sprintf("many/%03d/%d", i%100, i))
	}
	return launch{write: []string{"{workspace}"}, deny: paths}
}

// Ten thousand denies are either merged or refused with what caused it, in
// the time that a person waits.
func TestManyDenies(t *testing.T) {
	t.Parallel()
	const n = 10_000
	tr := newTree(t)
	l := manyDenies(tr, n)
	start := time.Now()
	l.grant(tr) // nothing stands there, and nothing inside can make it
	tr.dirs("many")
	for i, p := range l.deny {
		if i < 100 {
			tr.dirs(fmt.Sprintf("many/%03d", i))
		}
		if err := os.WriteFile(tr.path(p), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := l.refused(tr, "too_many_mounts")
	for _, want := range []string{"10000 from read.deny", "at most 300"} {
		if !strings.Contains(r.Why, want) {
			t.Errorf("why = %q, want it to name %q", r.Why, want)
		}
	}
	l.deny = append(l.deny, "many")
	l.grant(tr) // one deny holds them all
	if took := time.Since(start); took > time.Minute {
		t.Errorf("three launches with %d denies took %s", n, took)
	} else {
		t.Logf("three launches with %d denies: %s", n, took)
	}
}
