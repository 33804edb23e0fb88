//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// giveModes gives everything of /dev and of the machine's /proc the mode that it
// has, and says of what it could: another mode would be the host's as well.
const giveModes = `for f in /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty $(ls -d /proc/[a-z]* | grep -v -x -e '/proc/self' -e '/proc/thread-self' -e '/proc/net' -e '/proc/mounts'); do
	mode=$(stat -c %a "$f" 2>/dev/null) && chmod "$mode" "$f" 2>/dev/null && echo "gave $f"
done; touch -a /dev/full 2>/dev/null && echo "touched /dev/full"; echo done`

// TestModesOfTheMachine: root inside owns what root outside owns there, without
// any capability, and can't give it another mode.
func TestModesOfTheMachine(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	if os.Getuid() == 0 {
		out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--cap-drop", "ALL", "sh", "-c", giveModes).Output()
		if err != nil || !strings.Contains(string(out), "gave /dev/zero") || !strings.Contains(string(out), "gave /proc/meminfo") || !strings.Contains(string(out), "touched") {
			t.Fatalf("without this boundary it can't either: %v %s", err, out)
		}
	}
	l := newLab(t)
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", giveModes}}); res.code != 0 || res.stdout != "done\n" {
		t.Errorf("%v", res)
	}
	const use = "echo x >/dev/null && head -c 4 /dev/urandom | wc -c && echo x 2>/dev/null >/dev/full; head -1 /proc/meminfo && cat /proc/sysvipc/msg >/dev/null && echo name >/proc/self/comm && echo used"
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", use}}); res.code != 0 || !strings.Contains(res.stdout, "used") {
		t.Errorf("they can't be used: %v", res)
	}
}
