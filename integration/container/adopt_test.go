//go:build linux

package container_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"pinfold/plan"
	"pinfold/recover"
)

// held starts a launch under a wrapper that a test can be the owner of.
func (p *pen) held(name string) *running {
	p.t.Helper()
	record := filepath.Join(p.state, name)
	inner := p.args(nil, loop, "--record", record)
	cmd := p.command(context.Background(), inner...)
	cmd.Args, cmd.Path = append([]string{"sh", "-c", `"$@" & wait $!; exit $?`, "sh", p.bin}, inner...), "/bin/sh"
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	r := &running{pen: p, cmd: cmd, record: record}
	p.t.Cleanup(func() {
		_ = p.command(context.Background(), "stop", "--record", record, "--grace", "100ms").Run() // it may have ended
		_ = cmd.Wait()
	})
	p.until("it runs", func() bool { return r.stored().Root != nil })
	p.until("it can be told", func() bool { _, code := r.adopt(cmd.Process.Pid); return code != 125 })
	return r
}

// TestAdoptLooksInside: of a container that this kernel runs every proof is
// had that there is of a sandbox, and each that is broken is the one that
// fails.
func TestAdoptLooksInside(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.held("inside")
		v, code := r.adopt(r.cmd.Process.Pid)
		proofs, not := []recover.Proof{recover.ProofNamespaces, recover.ProofPrivileges, recover.ProofMaps, recover.ProofMounts, recover.ProofCanaries}, []string(nil)
		if p.asRoot() {
			proofs = append(proofs, recover.ProofAlone)
		} else {
			not = append(not, "alone: this user can't see what others put into the container")
		}
		for _, proof := range proofs {
			if code != 0 || !slices.Contains(v.Held, proof) {
				t.Errorf("%s: exit %d, %+v", proof, code, v)
			}
		}
		if !slices.Equal(v.NotProven, not) || v.Processes < 2 {
			t.Errorf("%+v", v)
		}
		for name, c := range map[string]struct {
			break_ func(*plan.Root)
			want   recover.Proof
		}{
			"another network":    {func(r *plan.Root) { r.Namespaces["net"]++ }, recover.ProofNamespaces},
			"a namespace less":   {func(r *plan.Root) { delete(r.Namespaces, "mnt") }, recover.ProofNamespaces},
			"more filters":       {func(r *plan.Root) { r.Filters["command"]++ }, recover.ProofPrivileges},
			"another first one":  {func(r *plan.Root) { r.Filters["init"]-- }, recover.ProofPrivileges},
			"other users":        {func(r *plan.Root) { r.UIDMap += ",7 7 1" }, recover.ProofMaps},
			"other groups":       {func(r *plan.Root) { r.GIDMap = "" }, recover.ProofMaps},
			"a mount less":       {func(r *plan.Root) { r.Mounts = r.Mounts[1:] }, recover.ProofMounts},
			"no mounts":          {func(r *plan.Root) { r.Mounts = nil }, recover.ProofMounts},
			"older than the pin": {func(r *plan.Root) { r.Init.StartTicks-- }, recover.ProofInit},
		} {
			restore := r.rewriteRoot(c.break_)
			if v, code := r.adopt(r.cmd.Process.Pid); code != 3 || v.Proof != c.want {
				t.Errorf("%s: exit %d, %+v, wanted %s to fail", name, code, v, c.want)
			}
			restore()
		}
		restore := r.rewriteJournal()
		if v, code := r.adopt(r.cmd.Process.Pid); code != 3 || v.Proof != recover.ProofCanaries {
			t.Errorf("nothing tried: exit %d, %+v", code, v)
		}
		restore()
		if v, code := r.adopt(r.cmd.Process.Pid); code != 0 {
			t.Errorf("after all: %+v", v)
		}
	})
}

// rewriteJournal takes the line out that says what was tried.
func (r *running) rewriteJournal() (restore func()) {
	r.t.Helper()
	file := filepath.Join(r.record, "journal")
	before, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	put := func(b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	var kept []byte
	for line := range bytes.Lines(before) {
		if !bytes.Contains(line, []byte(`"`+plan.KindCanaries+`"`)) {
			kept = append(kept, line...)
		}
	}
	if bytes.Equal(kept, before) {
		r.t.Fatalf("the journal doesn't say what was tried: %s", before)
	}
	put(kept)
	return func() { put(before) }
}

// asRoot reports whether this pen calls pinfold as root.
func (p *pen) asRoot() bool { return os.Getuid() == 0 && p.l.uid == 0 }

// rewriteRoot changes the root file and answers what undoes it.
func (r *running) rewriteRoot(change func(*plan.Root)) func() {
	r.t.Helper()
	file := filepath.Join(r.record, "root")
	before, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	root := new(plan.Root)
	if err := json.Unmarshal(before, root); err != nil {
		r.t.Fatal(err)
	}
	change(root)
	after, err := json.Marshal(root)
	if err != nil {
		r.t.Fatal(err)
	}
	put := func(b []byte) {
		if err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, b, 0o600), os.Chmod(file, 0o400)); err != nil {
			r.t.Fatal(err)
		}
	}
	put(after)
	return func() { put(before) }
}

// TestAdoptSeesTheHost: a mount that the host makes in a container, and a
// process that it puts there, are seen.
func TestAdoptSeesTheHost(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		if os.Getuid() != 0 {
			t.Skip("needs root to enter the container's namespaces")
		}
		p := newPen(t, l)
		r := p.held("seen")
		pid := itoa(r.stored().Root.Init.PID)
		adopt := func(what string, want recover.Proof) {
			t.Helper()
			if v, code := r.adopt(r.cmd.Process.Pid); v.Proof != want || code != 3 && want != "" {
				t.Errorf("%s: exit %d, %+v, wanted %q to fail", what, code, v, want)
			}
		}
		if p.asRoot() {
			guest := p.guest(pid)
			adopt("a guest", recover.ProofAlone)
			guest()
		}
		adopt("nobody", "")
		mountInside(t, pid, "/dev/shm")
		adopt("a mount", recover.ProofMounts)
	})
}

// guest puts a process into the pid namespace of another, and answers what
// ends it.
func (p *pen) guest(pid string) func() {
	p.t.Helper()
	in, stdin, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.t.Context(), "nsenter", "-t", pid, "-p", "--", "sh", "-c", "echo in; read x")
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "in\n" {
		p.t.Fatalf("%q, %v", line, err)
	}
	return func() { _ = errors.Join(stdin.Close(), in.Close(), cmd.Wait()) }
}

// mountInside mounts an empty file system in the namespace of a process, as
// root of the host can: mount(8) enters it, none of whose programs are needed.
func mountInside(t *testing.T, pid, at string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "mount", "-N", pid, "-t", "tmpfs", "none", at).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
