package main_test

import (
	"os/exec"
	"testing"

	"pinfold/stub/wire"
)

// BenchmarkLaunch is a whole run of true through the stub, with a hundred
// paths to check, Landlock and a listener. Its difference from BenchmarkPlain,
// the same bubblewrap without the stub, is what the stub costs.
func BenchmarkLaunch(b *testing.B) {
	s := command("true")
	s.setup.Landlock = wire.Landlock{Enabled: landlockABI() >= wire.LandlockABI, Writable: []string{"/dev/shm"}}
	s.setup.Listen = []string{"127.0.0.1:3128"}
	for range 100 {
		s.setup.Checks = append(s.setup.Checks, bind(b, "/usr/bin", true))
	}
	for b.Loop() {
		s.ran(b)
	}
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
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "sh", args...).Run(); err != nil {
			b.Fatal(err)
		}
	}
}
