//go:build linux

package integration_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSignalsThatWait: whatever a user's sandboxes leave waiting, together it is
// half of what may wait, so that a container's first process is still told who
// sent it a signal.
func TestSignalsThatWait(t *testing.T) {
	t.Parallel()
	call, ok := map[string]int{"amd64": 129, "arm64": 138}[runtime.GOARCH] // rt_sigqueueinfo
	if !ok {
		t.Skipf("no numbers of system calls for %s", runtime.GOARCH)
	}
	const few = 1000
	fill := func(after string) string {
		return fmt.Sprintf(`sigprocmask(SIG_BLOCK, POSIX::SigSet->new(40));
			my $info = pack("i4 i2 x104", 40, 0, -1, 0, $$, 0); my $n = 0;
			while (1) { # others of this user may have signals waiting, for a moment
				$n++ while $n < 5000 && syscall(%d, $$, 40, $info) == 0;
				last if $n || -e "full";
				select(undef, undef, undef, 0.05);
			}
			$| = 1; print "$n\n"; %s`, call, after)
	}
	l := newLab(t)
	command := func(script string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		cmd := l.command(ctx, t, launch{policy: workspaceOnly(), flags: []string{"--quiet"}, argv: []string{"perl", "-MPOSIX", "-e", script}})
		bound, err := exec.LookPath("prlimit")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = append([]string{bound, "--sigpending=" + strconv.Itoa(few), cmd.Path}, cmd.Args[1:]...)
		cmd.Path = bound
		return cmd
	}
	first := command(fill(`select(undef, undef, undef, 0.05) until -e "go"; POSIX::_exit(0)`))
	out, err := first.StdoutPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var one, two int
	if _, err := fmt.Fscan(out, &one); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(l.ws, "full"), "", 0o644)
	text, err := command(fill("POSIX::_exit(0)")).Output()
	if err == nil {
		two, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	write(t, filepath.Join(l.ws, "go"), "", 0o644)
	if werr := first.Wait(); err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	if one == 0 || one+two > few/2 {
		t.Errorf("%d and %d wait, of %d that may", one, two, few)
	}
}
