//go:build linux

package container_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pinfold/container/conformance"
)

// redteamCase is one row of the shared runner's report.
type redteamCase struct {
	Case, Verdict, Why, Severity string
}

// TestRedteam runs the shared red-team cases, which are no part of this
// repository, in containers of docker's. Each must be held (or work), but for
// those that testdata/redteam.txt lists with the reason; one that is listed
// and held all the same fails too, so the list can't rot.
func TestRedteam(t *testing.T) {
	dir := os.Getenv("PINFOLD_REDTEAM")
	if dir == "" {
		t.Skip("PINFOLD_REDTEAM is not set: the shared red-team cases are not run")
	}
	l := dockerLab(t)
	e := l.connect(t)
	// An image of links alone: the programs of the cases are the host's.
	image := conformance.Image{Name: "localhost/pinfold-test/system:1", Architecture: runtime.GOARCH, Files: map[string]conformance.File{}}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + name); err == nil {
			image.Files[name] = conformance.File{Link: target}
		}
	}
	cases := runRedteam(t, dir, l.load(t, e, image))
	expected := expectedVerdicts(t)
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			want, listed := expected[c.Case]
			switch {
			case c.Verdict == "HELD" && listed && !slices.Contains(want.verdicts, "HELD"):
				t.Error("held now: take it off testdata/redteam.txt")
			case c.Verdict == "HELD":
			case listed && slices.Contains(want.verdicts, c.Verdict):
				t.Skipf("%s, as listed: %s (%s)", c.Verdict, want.why, c.Why)
			default:
				t.Errorf("%s (%s): %s", c.Verdict, c.Severity, c.Why)
			}
		})
	}
	if len(cases) < 100 {
		t.Errorf("the runner reported %d cases only", len(cases))
	}
}

// expectation is a line of the list.
type expectation struct {
	verdicts []string
	why      string
}

// expectedVerdicts reads "CASE VERDICT WHY" lines; VERDICT may name several
// with "|" between.
func expectedVerdicts(t *testing.T) map[string]expectation {
	t.Helper()
	text, err := os.ReadFile("testdata/redteam.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]expectation{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case len(fields) < 3:
			t.Fatalf("testdata/redteam.txt: want CASE VERDICT WHY: %q", line)
		default:
			out[fields[0]] = expectation{strings.Split(fields[1], "|"), strings.Join(fields[2:], " ")}
		}
	}
	return out
}

// redteamRun builds the runner's own lab, runs every case and takes the lab
// down, in a mount namespace where the network namespaces that it names are
// nobody else's.
const redteamRun = `set -eu
mkdir -p /run/netns /etc/netns
mount -t tmpfs none /run/netns
mount -t tmpfs none /etc/netns
dir=$1 root=$2 adapter=$3 report=$4
trap '"$dir/lab.sh" down "$root" root' EXIT
"$dir/lab.sh" up "$root" root
"$dir/run.py" "$adapter" --root "$root" --user root --json "$report"`

func runRedteam(t *testing.T, dir, image string) []redteamCase {
	t.Helper()
	adapter, err := filepath.Abs("testdata/redteam-adapter")
	if err != nil {
		t.Fatal(err)
	}
	// The lab's daemons keep what they inherit, so no pipe will do.
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	lab, err := os.MkdirTemp("/srv", "redlab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(lab); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("unshare", "--mount", "--ipc", "--propagation", "private", "/bin/sh", "-c", redteamRun, "sh", dir, filepath.Join(lab, "lab"), adapter, report)
	cmd.Env = append(os.Environ(), "PINFOLD="+os.Getenv("PINFOLD_BIN")+" "+image)
	cmd.Stdout, cmd.Stderr = out, out
	failed := cmd.Run()
	said, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", said)
	if failed != nil {
		t.Fatal(failed)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var found struct{ Cases []redteamCase }
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return found.Cases
}
