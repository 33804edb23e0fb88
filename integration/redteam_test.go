//go:build linux

package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// redteamCase is one row of the shared runner's report.
type redteamCase struct {
	Case, Verdict, Why, Severity string
}

// known is one case that isn't expected to be held.
type known struct{ users, verdict, why string }

// TestRedteam runs the shared red-team cases, which are no part of this
// repository, with the wrapper run by PINFOLD_REDTEAM_USER. Each must be held
// (or work), but for those that testdata/redteam.txt lists with the reason; a
// case that is listed and held all the same fails too, so the list can't rot.
func TestRedteam(t *testing.T) {
	dir := os.Getenv("PINFOLD_REDTEAM")
	if dir == "" {
		t.Skip("PINFOLD_REDTEAM is not set: the shared red-team cases are not run")
	}
	user := os.Getenv("PINFOLD_REDTEAM_USER")
	cases, err := runRedteam(t, dir, user)
	if err != nil {
		t.Fatal(err)
	}
	expected := readKnown(t)
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) { c.judge(t, expected[c.Case], user) })
	}
	if len(cases) < 100 {
		t.Errorf("the runner reported %d cases only", len(cases))
	}
}

// judge compares one verdict with what is expected of it.
func (c redteamCase) judge(t *testing.T, k known, user string) {
	t.Helper()
	listed := k.verdict != "" && (k.users == "any" || k.users == user || k.users == "user" && user != "root")
	switch {
	case c.Verdict == "HELD" && listed && !strings.Contains(k.verdict, "HELD"):
		t.Errorf("held now: take it off testdata/redteam.txt")
	case c.Verdict == "HELD":
	case listed && slices.Contains(strings.Split(k.verdict, "|"), c.Verdict):
		t.Skipf("%s, as listed: %s (%s)", c.Verdict, k.why, c.Why)
	default:
		t.Errorf("%s (%s): %s", c.Verdict, c.Severity, c.Why)
	}
}

// readKnown reads "CASE USERS VERDICT WHY" lines; USERS is root, user or any,
// and VERDICT may name several with "|" between.
func readKnown(t *testing.T) map[string]known {
	t.Helper()
	out := map[string]known{}
	for line := range strings.Lines(read(t, "testdata/redteam.txt")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 4 {
			t.Fatalf("testdata/redteam.txt: want CASE USERS VERDICT WHY: %q", line)
		}
		out[fields[0]] = known{fields[1], fields[2], strings.Join(fields[3:], " ")}
	}
	return out
}

// redteamRun builds the runner's own lab, runs every case and takes the lab
// down. It runs in a mount and IPC namespace of its own, so that the network
// namespaces it names and the hosts file it writes are nobody else's.
const redteamRun = `set -eu
mkdir -p /run/netns /etc/netns
mount -t tmpfs none /run/netns
mount -t tmpfs none /etc/netns
dir=$1 root=$2 user=$3 report=$4
trap '"$dir/lab.sh" down "$root" "$user"' EXIT
"$dir/lab.sh" up "$root" "$user"
"$dir/run.py" pinfold --root "$root" --user "$user" --json "$report"`

// runRedteam runs every case and returns the runner's report.
func runRedteam(t *testing.T, dir, user string) ([]redteamCase, error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	// The lab's daemons keep what they inherit, so no pipe will do.
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("unshare", "--mount", "--ipc", "--propagation", "private",
		"/bin/sh", "-c", redteamRun, "sh", dir, labParent()+"/redlab", user, report)
	cmd.Env = append(os.Environ(), "PINFOLD="+built.pinfold)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	t.Logf("%s", read(t, out.Name()))
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var found struct{ Cases []redteamCase }
	err = json.Unmarshal(b, &found)
	return found.Cases, err
}
