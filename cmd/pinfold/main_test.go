package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pinfold/stub"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// tests is what runs where the binary was started as a test.
type tests struct {
	*testing.M
}

// Run works beneath the home: a launch has a /tmp of its own, so what lies in
// the host's /tmp doesn't show inside.
func (t tests) Run() int {
	home, err := os.UserHomeDir()
	if err != nil {
		return t.M.Run()
	}
	dir, err := os.MkdirTemp(home, ".pinfold-test-")
	if err != nil {
		return t.M.Run()
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir) //nolint:usetesting // before any test
	return t.M.Run()
}

func TestMain(m *testing.M) {
	if os.Getenv("TMPDIR") == "" && filepath.Base(os.Args[0]) != "pinfold" {
		if home, err := os.UserHomeDir(); err == nil {
			os.Setenv("TMPDIR", home) //nolint:usetesting // before any test
		}
	}
	testscript.Main(tests{m}, map[string]func(){
		"echod": serveEcho,
		"pinfold": func() {
			os.Exit(run(context.Background(), os.Args[1:], stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

// TestScripts runs every subcommand as a user would. A script's home, state
// and configuration are beneath its own work directory.
func TestScripts(t *testing.T) {
	t.Parallel()
	sandbox := canSandbox(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "service": service},
		Condition: func(name string) (bool, error) {
			switch name {
			case "sandbox":
				return sandbox, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("no such condition")
		},
		Setup: func(e *testscript.Env) error {
			home := e.WorkDir + "/home"
			e.Setenv("HOME", home)
			e.Setenv("XDG_STATE_HOME", home+"/state")
			e.Setenv("XDG_CONFIG_HOME", home+"/config")
			e.Setenv("PINFOLD_STATE", "")
			e.Setenv("ESC", "\x1b[31mred")
			return os.MkdirAll(home, 0o700)
		},
	})
}

// canSandbox reports whether real launches can be tested. Where they are asked
// for, a machine that can't is a failure.
func canSandbox(t *testing.T) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bwrap", "--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput()
	if err == nil {
		_, err = stub.Binary(runtime.GOARCH)
	}
	if err != nil && os.Getenv("PINFOLD_INTEGRATION") != "" {
		t.Fatalf("cannot test real launches: %v: %s", err, out)
	}
	if err != nil {
		t.Logf("real launches are not tested: %v: %s", err, out)
	}
	return err == nil
}

// service waits for the address that a background program writes to a file and
// puts it into $ADDR and $PORT, and a policy that allows it into policy.json.
func service(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: service FILE")
	}
	var text []byte
	for range 1000 {
		var err error
		if text, err = os.ReadFile(ts.MkAbs(args[0])); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond) // another program's file: nothing tells
	}
	_, port, err := net.SplitHostPort(string(text))
	ts.Check(err)
	ts.Setenv("ADDR", string(text))
	ts.Setenv("PORT", port)
	policy := fmt.Sprintf(`{"version": 1, "write": ["{workspace}"], "network": {"allow": [%q]}}`, text)
	ts.Check(os.WriteFile(ts.MkAbs("policy.json"), []byte(policy), 0o600))
}

// exits runs a program and compares its exit code: exits CODE PROGRAM ARGS...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("cannot run %q: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%q: got exit code %d, wanted %d", args[1:], got, want)
	}
}
