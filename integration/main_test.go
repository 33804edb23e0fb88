//go:build linux

package integration_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// tools are the programs that the tests run, made once.
type tools struct {
	pinfold, attack string
}

// built is filled by TestMain, before any test runs.
var built tools

func TestMain(m *testing.M) {
	filterMain()
	os.Exit(mainExit(m))
}

func mainExit(m *testing.M) int {
	if config := os.Getenv(daemonConfig); config != "" {
		return asDaemon(config)
	}
	if !enabled() {
		return m.Run()
	}
	takeSignals()
	dir, err := os.MkdirTemp(labParent(), "pinfold-tools-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = errors.Join(os.Chmod(dir, 0o755), build(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the tests:", err)
		return 1
	}
	return m.Run()
}

// takeSignals makes what the tests start begin with the usual signals, though
// whoever runs them in the background had some ignored: what is handled here
// is reset by execve(2), what is ignored isn't.
func takeSignals() {
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP)
	go func() { os.Exit(128 + int((<-taken).(unix.Signal))) }()
}

func enabled() bool { return os.Getenv("PINFOLD_INTEGRATION") == "1" }

// needsSandbox skips a test in a run that isn't about sandboxes.
func needsSandbox(t *testing.T) {
	t.Helper()
	if !enabled() {
		t.Skip("PINFOLD_INTEGRATION is not set")
	}
}

// labParent is where labs are laid out. Not in a temporary directory: those
// are private inside, and a lab must be seen there as it is.
func labParent() string {
	if dir := os.Getenv("PINFOLD_LAB"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "/"
	}
	return home
}

func build(dir string) error {
	built = tools{os.Getenv("PINFOLD_BIN"), os.Getenv("PINFOLD_ATTACK")}
	if built.pinfold == "" {
		built.pinfold = filepath.Join(dir, "pinfold")
		if err := command("sh", "../stub/build.sh"); err != nil {
			return err
		}
		if err := command("go", "build", "-trimpath", "-o", built.pinfold, "../cmd/pinfold"); err != nil {
			return err
		}
	}
	if built.attack == "" {
		built.attack = filepath.Join(dir, "attack")
		return command("gcc", "-O1", "-static", "-o", built.attack, "attack/attack.c")
	}
	return nil
}

func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run %s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
