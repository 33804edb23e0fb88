//go:build linux

package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secret is in every file that nobody inside may read.
const secret = "LABSECRET"

// lab is one home, one caller's state, one workspace, all fake.
type lab struct {
	root    string
	home    string
	protect string // the caller's state, in the protected set
	state   string // pinfold's own
	ws      string // a git repository
	run     string
	public  string // readable by everybody, granted to nobody
}

// newLab lays a lab out and removes it, and checks that nothing was left
// behind in it, when the test ends.
func newLab(t *testing.T) *lab {
	t.Helper()
	needsSandbox(t)
	root, err := os.MkdirTemp(labParent(), "pinfold-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeTree(t, root) })
	l := &lab{
		root: root, home: root + "/home", protect: root + "/daemon", state: root + "/state",
		ws: root + "/ws", run: root + "/run", public: root + "/public",
	}
	for _, dir := range []string{l.home, l.protect, l.ws, l.run, l.public} {
		mkdir(t, dir)
	}
	for _, name := range []string{
		"home/.ssh/id_ed25519", "home/.aws/credentials", "home/.netrc", "home/.git-credentials", "home/.config/gh/hosts.yml",
		"home/.gnupg/private-keys-v1.d/k.key", "home/.kube/config", "home/.docker/config.json", "home/.npmrc", "home/.pgpass",
		"home/.bash_history", "daemon/token", "daemon/executions/other/token",
	} {
		write(t, filepath.Join(root, name), secret+" "+name+"\n", 0o600)
	}
	write(t, l.home+"/.ssh/known_hosts", "host key\n", 0o600)
	write(t, l.home+"/.gitconfig", "[user]\n\tname = Lab\n\temail = lab@example.test\n[init]\n\tdefaultBranch = main\n", 0o644)
	write(t, l.home+"/.bashrc", "# start-up file\n", 0o644)
	write(t, l.home+"/.config/app/settings.toml", "colour = 'blue'\n", 0o644)
	write(t, l.public+"/notes.txt", "nothing secret\n", 0o644)
	l.repository(t)
	return l
}

// repository makes the workspace a git repository with one commit.
func (l *lab) repository(t *testing.T) {
	t.Helper()
	write(t, l.ws+"/README.md", "hello\n", 0o644)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		l.git(t, args...)
	}
	write(t, l.ws+"/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
}

// git runs the host's git in the workspace.
func (l *lab) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = l.ws, append(l.env(), "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v on the host: %v\n%s", args, err, out)
	}
	return string(out)
}

// env is the environment that pinfold is given.
func (l *lab) env() []string {
	return []string{
		"HOME=" + l.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "USER=lab",
		"GOCACHE=" + l.run + "/gocache", "GOFLAGS=", "LAB_TAG=" + l.root,
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// removeTree removes a lab, though directories in it may have lost their modes.
func removeTree(t *testing.T, root string) {
	t.Helper()
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o755)
		}
		return nil
	})
	// A shell that has lost its terminal may be writing its history still.
	var err error
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = os.RemoveAll(root); err == nil {
			return
		}
	}
	t.Errorf("cannot remove the lab: %v", err)
}

// doc is a policy document.
type doc = map[string]any

// workspaceOnly grants the workspace and the run directory.
func workspaceOnly() doc { return doc{"write": []string{"{workspace}"}} }

// launch is one call of pinfold.
type launch struct {
	policy  any      // marshalled to a file; a string is the file's text; nil for none
	flags   []string // added to the lab's own
	argv    []string
	stdin   string
	dir     string
	env     []string // added
	files   []*os.File
	timeout time.Duration
	// bare leaves the lab's own flags out.
	bare bool
}

// result is what came of it.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return "exit " + itoa(r.code) + "\nstdout: " + r.stdout + "\nstderr: " + r.stderr
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// policyFile writes a policy where nobody inside can write.
func (l *lab) policyFile(t *testing.T, p any) string {
	t.Helper()
	text, isText := p.(string)
	if !isText {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	f, err := os.CreateTemp(l.root, "policy-*.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		t.Fatalf("cannot write the policy: %v", err)
	}
	return f.Name()
}

// args are the arguments of "pinfold wrap".
func (l *lab) args(t *testing.T, c launch) []string {
	t.Helper()
	args := []string{"wrap"}
	if !c.bare {
		args = append(args, "--workspace", l.ws, "--run-dir", l.run, "--state", l.state, "--protect", l.protect)
	}
	if c.policy != nil {
		args = append(args, "--policy", l.policyFile(t, c.policy))
	}
	return append(append(append(args, c.flags...), "--"), c.argv...)
}

// command is the process to be, not started.
func (l *lab) command(ctx context.Context, t *testing.T, c launch) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, built.pinfold, l.args(t, c)...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = l.ws, append(l.env(), c.env...), c.files
	if c.dir != "" {
		cmd.Dir = c.dir
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// wrap runs a command inside and returns what came of it.
func (l *lab) wrap(t *testing.T, c launch) result {
	t.Helper()
	if c.timeout == 0 {
		c.timeout = 60 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
	defer cancel()
	cmd := l.command(ctx, t, c)
	cmd.Stdin = strings.NewReader(c.stdin)
	res := runCommand(t, cmd)
	if ctx.Err() != nil {
		t.Fatalf("no end within %v: %v\n%v", c.timeout, c.argv, res)
	}
	return res
}

// direct runs a command outside: the control.
func (l *lab) direct(t *testing.T, c launch) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = l.ws, append(l.env(), c.env...), c.files
	cmd.Stdin = strings.NewReader(c.stdin)
	return runCommand(t, cmd)
}

func runCommand(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("cannot run %v: %v", cmd.Args, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
