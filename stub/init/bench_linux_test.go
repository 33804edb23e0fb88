package main_test

import (
	"os/exec"
	"testing"
	"time"

	"pinfold/stub/wire"
)

// BenchmarkLaunch is a whole run of true through the stub, with a hundred
// paths to check, Landlock and a listener. Its difference from BenchmarkPlain,
// the same bubblewrap without filter and stub, is what the two cost; the
// processor time says so on a busy machine too.
func BenchmarkLaunch(b *testing.B) {
	s := command("true")
	s.setup.Landlock = wire.Landlock{Enabled: landlockABI() >= wire.LandlockABI, Writable: []string{"/dev/shm"}}
	s.setup.Listen = []string{"127.0.0.1:3128"}
	for range 100 {
		s.setup.Checks = append(s.setup.Checks, bind(b, "/usr/bin", true))
	}
	s.setup.Calls = sample()
	var cpu, proof time.Duration
	for b.Loop() {
		r := s.ran(b)
		cpu, proof = cpu+r.cpu, proof+r.proof
	}
	b.ReportMetric(float64(proof.Microseconds())/float64(b.N), "proof-µs/op")
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/op")
}

func BenchmarkPlain(b *testing.B) {
	requireBwrap(b)
	args := append([]string{"-c", "\nexec bwrap \"$@\"", "sh"}, command().args(b)...)
	for i, a := range args {
		if a == "--seccomp" {
			args = append(args[:i:i], args[i+2:]...)
			break
		}
	}
	args[len(args)-1] = "true"
	var cpu time.Duration
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), "sh", args...)
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "cpu-µs/op")
}
