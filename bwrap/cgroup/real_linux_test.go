package cgroup_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/bwrap/cgroup"
)

// unifiedMount is where version 2 is mounted on this machine, and writable.
func unifiedMount(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	t.Skip("no cgroup v2 that may be written")
	return ""
}

// realTree makes a cgroup of version 2 by the kernel's own files, without any
// controller, which the placing and the killing need none of.
func realTree(t *testing.T) (*cgroup.Tree, string) {
	t.Helper()
	parent := unifiedMount(t)
	tree, dir, err := cgroup.MakeBare(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	})
	return tree, dir
}

// Whatever a process starts after it was attached is killed with it, also
// what has detached itself from everything else.
func TestKillsTheWholeTree(t *testing.T) {
	t.Parallel()
	tree, dir := realTree(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x; (setsid setsid sleep 300 &); setsid sleep 300 & echo up; wait")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := tree.Attach(t.Context(), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if procs, err := os.ReadFile(dir + "/cgroup.procs"); err != nil || len(strings.Fields(string(procs))) < 2 {
		t.Fatalf("in the cgroup are %q: %v", procs, err)
	}
	if err := tree.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	if s := tree.Stats(); s.CPU == 0 {
		t.Errorf("no processor time in %+v", s)
	}
}
