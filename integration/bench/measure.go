package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// launch compares "true" inside with plain bubblewrap and with nothing.
func (b *bench) launch() error {
	same, err := b.sameMounts("true")
	if err != nil {
		return err
	}
	m, err := turns(b.runs, b.plain("pinfold", b.wrap(b.policy, "true")...), same, b.plain("true", "true"))
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{"launch of `true`, against bubblewrap with the same mounts", ms(m[0]), ms(m[1]), times(m[0], m[1]), "at most 1.8 ×"})
	b.rows = append(b.rows, row{"of which starting any program", ms(m[2]), "", "", ""})
	return nil
}

// peers compares with programs that do the same job, where they are there.
func (b *bench) peers() error {
	settings, err := b.write("srt.json", map[string]any{
		"network":    map[string]any{"allowedDomains": []string{}, "deniedDomains": []string{}},
		"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{b.ws}, "denyWrite": []string{}},
	})
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name, aim string
		argv      []string
	}{
		{"srt", "at most 0.067 ×", []string{b.srt, "--settings", settings, "true"}},
		{"fence", "at most 0.2 ×", []string{b.fence, "true"}},
	} {
		what := "launch of `true`, against " + p.name
		if p.argv[0] == "" {
			b.rows = append(b.rows, row{what, "", "not installed", "", p.aim})
			continue
		}
		m, err := turns(b.peerRuns, b.plain("pinfold", b.wrap(b.policy, "true")...), b.plain(p.name, p.argv...))
		if err != nil {
			return err
		}
		b.rows = append(b.rows, row{what, ms(m[0]), ms(m[1]), fmt.Sprintf("%.3f ×", float64(m[0])/float64(m[1])), p.aim})
	}
	return nil
}

// burst starts many at once.
func (b *bench) burst() error {
	same, err := b.sameMounts("true")
	if err != nil {
		return err
	}
	file := b.policy
	var took [2]time.Duration
	for i, s := range []side{{name: "pinfold", make: func() (*exec.Cmd, error) {
		// Each with a run directory of its own, as separate runs have.
		return b.plain("pinfold", b.pinfold, "wrap", "--quiet", "--policy", file, "--workspace", b.ws, "--state", b.state, "--", "true").make()
	}}, same} {
		began := time.Now()
		failures := make([]error, b.atOnce)
		var wait sync.WaitGroup
		for n := range b.atOnce {
			wait.Go(func() { _, failures[n] = s.once() })
		}
		wait.Wait()
		if err := errors.Join(failures...); err != nil {
			return err
		}
		took[i] = time.Since(began)
	}
	b.rows = append(b.rows, row{fmt.Sprintf("%d launches at once, against bubblewrap", b.atOnce), ms(took[0]), ms(took[1]), times(took[0], took[1]), "all succeed"})
	return nil
}

// large launches on a workspace of many files, against find.
func (b *bench) large() error {
	if b.files == 0 {
		return nil
	}
	for n := range b.files {
		dir := filepath.Join(b.ws, "d"+strconv.Itoa(n/200))
		if n%200 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o644); err != nil {
			return err
		}
	}
	m, err := turns(5, b.plain("pinfold", b.wrap(b.policy, "true")...), b.plain("find", "find", b.ws, "-type", "f", "-links", "+1"))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("launch on a workspace of %s files, against `find -type f -links +1`", thousands(b.files))
	b.rows = append(b.rows, row{what, ms(m[0]), ms(m[1]), times(m[0], m[1]), "the walk alone: 0.7 ×"})
	return nil
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return strings.TrimPrefix(s, ",")
}
