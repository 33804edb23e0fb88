package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// rules measures what a launch costs with ever more rules, each of which is a
// mount of its own, against bubblewrap with the same mounts; its own time grows
// with the square of them.
func (b *bench) rules() error {
	dir := filepath.Join(b.root, "denied")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, n := range []struct{ rules, hold int }{{10, 10}, {50, 50}, {100, 100}, {200, 200}, {250, 250}, {500, 250}} {
		if err := b.ruleRow(dir, n.rules, n.hold); err != nil {
			return err
		}
	}
	return nil
}

// ruleRow measures so many rules, of which some hold something back, and the
// rest name what isn't there.
func (b *bench) ruleRow(dir string, rules, hold int) error {
	var deny []string
	for i := range rules {
		file := filepath.Join(dir, strconv.Itoa(i))
		if i < hold {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return err
			}
		}
		deny = append(deny, file)
	}
	policy, err := b.write("rules.json", map[string]any{"write": []string{"{workspace}"}, "read": map[string]any{"deny": deny}})
	if err != nil {
		return err
	}
	same, err := b.mountsOf(policy, "true")
	if err != nil {
		return err
	}
	m, err := turns(max(5, b.runs/4), b.plain("pinfold", b.wrap(policy, "true")...), same)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("launch with %d rules more, against bubblewrap with the same mounts", rules)
	if hold < rules {
		what = fmt.Sprintf("launch with %d rules more, %d of them of files that aren't there", rules, rules-hold)
	}
	aim := ""
	if rules == 250 {
		aim = "300 mounts are the most; more is refused"
	}
	b.rows = append(b.rows, row{what, ms(m[0]), ms(m[1]), times(m[0], m[1]), aim})
	return os.RemoveAll(filepath.Join(b.root, "rules.json"))
}

// took measures a function of this process's own.
func took(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}
