// Bench measures what a launch costs against the same work without pinfold,
// and writes the table of docs/benchmarks.md. Each comparison is made in one
// run, its sides taking turns, so that a busy machine slows both alike; what
// counts are the ratios.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// settings are the command line.
type settings struct {
	pinfold, srt, fence, out string
	only                     string
	runs, peerRuns, atOnce   int
	files                    int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		if err := probe(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	flag.StringVar(&s.pinfold, "pinfold", "bin/pinfold", "program to measure")
	flag.StringVar(&s.srt, "srt", "", "srt to compare with")
	flag.StringVar(&s.fence, "fence", "", "fence to compare with")
	flag.StringVar(&s.out, "out", "", "file to write instead of standard output")
	flag.IntVar(&s.runs, "runs", 60, "launches of each kind")
	flag.IntVar(&s.peerRuns, "peer-runs", 10, "launches of each slow peer")
	flag.IntVar(&s.atOnce, "at-once", 50, "launches at once")
	flag.IntVar(&s.files, "files", 200_000, "files of the large workspace; 0 leaves it out")
	flag.StringVar(&s.only, "only", "", "measure only what has this name")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(s settings) (err error) {
	if s.pinfold, err = filepath.Abs(s.pinfold); err != nil {
		return err
	}
	b, err := newBench(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.root)) }()
	if err := b.measure(); err != nil {
		return err
	}
	text := b.document()
	if s.out == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(s.out, []byte(text), 0o644)
}

// measure makes what is asked for, or everything.
func (b *bench) measure() error {
	measured := false
	for _, m := range []struct {
		name string
		make func() error
	}{
		{"launch", b.launch},
		{"user", b.ordinary},
		{"peers", b.peers},
		{"burst", b.burst},
		{"memory", b.memory},
		{"throughput", b.throughput},
		{"flows", b.flows},
		{"recovery", b.recovery},
		{"rules", b.rules},
		{"containers", b.containers},
		{"large", b.large},
		{"walk", b.walk},
	} {
		if b.only != "" && b.only != m.name {
			continue
		}
		measured = true
		if err := m.make(); err != nil {
			return fmt.Errorf("cannot measure %s: %w", m.name, err)
		}
	}
	if !measured {
		return fmt.Errorf("there is nothing called %q to measure", b.only)
	}
	return nil
}
