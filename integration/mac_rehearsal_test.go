//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeSandboxExec takes sandbox-exec's options and runs the command.
const fakeSandboxExec = `#!/bin/sh
while [ $# -gt 1 ]; do
	case $1 in
	-p | -f | -D) shift 2 ;;
	--) shift; break ;;
	*) break ;;
	esac
done
exec "$@"
`

// TestMacRehearsal goes through the acceptance script for Macs with this
// system's boundary, so that the script itself is right when it is needed.
func TestMacRehearsal(t *testing.T) {
	needsSandbox(t)
	for _, program := range []string{"perl", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the script needs %s", program)
		}
	}
	fake := filepath.Join(t.TempDir(), "sandbox-exec")
	if err := os.WriteFile(fake, []byte(fakeSandboxExec), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../scripts/mac-acceptance")
	if err != nil {
		t.Fatal(err)
	}
	rehearse := func(pinfold string) (string, error) {
		cmd := exec.CommandContext(t.Context(), script, "--rehearse")
		// Should the script not go elsewhere, it must not be here that it tries
		// what a boundary has to stop.
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "PINFOLD="+pinfold, "SANDBOX_EXEC="+fake, "HOME="+labParent())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := rehearse(built.pinfold); err != nil || !strings.Contains(out, ", 0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	// A boundary that holds nothing must be noticed.
	open := filepath.Join(t.TempDir(), "open")
	through := "#!/bin/sh\nwhile [ $# -gt 1 ] && [ \"$1\" != -- ]; do shift; done\nshift; exec \"$@\"\n"
	if err := os.WriteFile(open, []byte(through), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := rehearse(open)
	if err == nil {
		t.Errorf("a boundary that holds nothing has passed:\n%s", out)
	}
	for _, name := range []string{"no reading what is denied", "no writing outside", "no connection past the proxy", "no credentials", "no hook"} {
		if !strings.Contains(out, "FAIL  "+name+"\n") {
			t.Errorf("%q was not noticed in\n%s", name, out)
		}
	}
}
