//go:build linux

package integration_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold/integration/daemon"
)

// daemonConfig makes the test binary a daemon.
const daemonConfig = "PINFOLD_TEST_DAEMON"

// asDaemon is the daemon's main function.
func asDaemon(config string) int {
	var c daemon.Config
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = daemon.Run(context.Background(), c, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		return 1
	}
	return 0
}

// life is one life of the daemon.
type life struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// begin starts the daemon in a process of its own and takes what it says of
// its earlier lives.
func begin(t *testing.T, c daemon.Config) (*life, []string) {
	t.Helper()
	b, err := json.Marshal(c)
	must(t, err)
	d := &life{Cmd: exec.Command(os.Args[0])}
	d.Env = append(c.Env, daemonConfig+"="+string(b))
	d.Stderr = os.Stderr
	d.in, err = d.StdinPipe()
	must(t, err)
	out, err := d.StdoutPipe()
	must(t, err)
	d.out = bufio.NewScanner(out)
	must(t, d.Start())
	t.Cleanup(func() { _ = d.Process.Kill(); _ = d.Wait() })
	var said []string
	for {
		line := d.hear(t)
		if line == "ready" {
			return d, said
		}
		said = append(said, line)
	}
}

func (d *life) hear(t *testing.T) string {
	t.Helper()
	if !d.out.Scan() {
		t.Fatalf("the daemon has gone: %v", d.out.Err())
	}
	return d.out.Text()
}

// tell gives an order and wants an answer.
func (d *life) tell(t *testing.T, order, want string) {
	t.Helper()
	_, err := io.WriteString(d.in, order+"\n")
	must(t, err)
	if got := d.hear(t); got != want {
		t.Fatalf("%s: got %q, wanted %q", order, got, want)
	}
}

func (d *life) kill(t *testing.T) {
	t.Helper()
	must(t, d.Process.Kill())
	_ = d.Wait()
}

// halves is a server that sends the second half of a file only when it is told
// to.
func halves(t *testing.T) (url, sum string, halfway, goOn chan struct{}) {
	t.Helper()
	body := strings.Repeat("0123456789abcdef", 1<<16)
	digest := sha256.Sum256([]byte(body))
	halfway, goOn = make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		close(halfway)
		<-goOn
		_, _ = io.WriteString(w, body[len(body)/2:])
	}))
	t.Cleanup(s.CloseClientConnections)
	return s.URL, hex.EncodeToString(digest[:]), halfway, goOn
}

// TestDaemonRestart: a daemon that is killed finds what it left running, adopts
// what it can prove and refuses what was tampered with, while a download goes
// on through it all.
func TestDaemonRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	url, sum, halfway, goOn := halves(t)
	policy := l.policyFile(t, doc{"write": []string{"{workspace}"}, "network": doc{"allow": []string{strings.TrimPrefix(url, "http://")}}})
	mkdir(t, l.root+"/jobs")
	c := daemon.Config{
		Pinfold: built.pinfold, Dir: l.root + "/jobs", Env: l.env(),
		Wrap: []string{"--quiet", "--workspace", l.ws, "--chdir", l.ws, "--state", l.state, "--protect", l.root + "/jobs", "--policy", policy},
	}
	first, said := begin(t, c)
	if len(said) > 0 {
		t.Fatalf("a new daemon said %q", said)
	}
	for name, command := range map[string]string{
		"transfer": l.script(t, "exec curl -sS --noproxy '' -o got "+url), "sleeper": "sleep 1000", "edited": "sleep 1001",
		"swapped": "sleep 1002", "quick": "/bin/false", "orphan": "sleep 1003",
	} {
		first.tell(t, "start "+name+" "+command, "started "+name)
	}
	select {
	case <-halfway:
	case <-time.After(20 * time.Second):
		t.Fatalf("no download: %s", read(t, c.Dir+"/transfer/exit"))
	}
	eventually(t, "the quick one ends", func() bool { return exists(c.Dir + "/quick/exit") })
	running := descendants(t, first.Process.Pid)
	first.kill(t)

	must(t, os.Chmod(c.Dir+"/edited/plan.json", 0o600))
	write(t, c.Dir+"/edited/plan.json", strings.Replace(read(t, c.Dir+"/edited/plan.json"), "sleep", "slept", 1), 0o400)
	var n struct{ Parent int }
	must(t, json.Unmarshal([]byte(read(t, c.Dir+"/swapped.job")), &n))
	write(t, c.Dir+"/swapped.job", strings.Replace(read(t, c.Dir+"/swapped.job"), `"digest":"sha256:`, `"digest":"sha256:0`, 1), 0o600)
	must(t, json.Unmarshal([]byte(read(t, c.Dir+"/orphan.job")), &n))
	must(t, killPid(n.Parent))
	eventually(t, "the orphan's wrapper is gone", func() bool { return !alive(n.Parent) })

	second, said := begin(t, c)
	got := map[string]bool{}
	for _, line := range said {
		if !strings.HasPrefix(line, "#") {
			got[line] = true
		}
	}
	for _, want := range []string{
		"adopted transfer running", "adopted sleeper running", "adopted quick exited",
		"refused edited record", "refused swapped digest", "refused orphan parent",
	} {
		if !got[want] {
			t.Errorf("the daemon didn't say %q: %q", want, said)
		}
	}
	close(goOn)
	eventually(t, "the download ends", func() bool { return exists(c.Dir + "/transfer/exit") })
	second.tell(t, "look transfer", "transfer exited 0")
	second.tell(t, "look quick", "quick exited 1")
	second.tell(t, "look sleeper", "sleeper running")
	digest := sha256.Sum256([]byte(read(t, l.ws+"/got")))
	if hex.EncodeToString(digest[:]) != sum {
		t.Error("the download was damaged by the restart")
	}
	second.tell(t, "quit", "bye")
	for _, pid := range running {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) || isZombie(pid) })
	}
}

// script is a shell script in the workspace.
func (l *lab) script(t *testing.T, text string) string {
	t.Helper()
	// A launch starts where its caller stands, and the tests don't stand here.
	write(t, l.ws+"/script.sh", "cd '"+l.ws+"'\n"+text+"\n", 0o644)
	return "sh " + l.ws + "/script.sh"
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func killPid(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// isZombie: it runs nothing, and waits for a parent that isn't the test.
func isZombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}
