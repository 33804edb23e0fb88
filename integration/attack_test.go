//go:build linux

package integration_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// attack is one attempt. It is made inside, where it must be held, and in a
// fresh lab without a sandbox, where it must work.
type attack struct {
	// args of the attack program; {home}, {ws} … stand for the lab's paths.
	args []string
	// prepare lays out what the attempt needs and returns words to replace.
	prepare func(t *testing.T, l *lab) []string
	// after is checked on the host once the attempt was held.
	after func(t *testing.T, l *lab)
	// policy to use instead of workspaceOnly.
	policy doc
	// root: the control works for root alone, so an ordinary user has none.
	root bool
	// control says why the control can't work anywhere, "" where it must.
	noControl string
	files     func(t *testing.T, l *lab) []*os.File
}

// place replaces the lab's names in an argument.
func (l *lab) place(words []string) *strings.Replacer {
	return strings.NewReplacer(append([]string{
		"{home}", l.home, "{ws}", l.ws, "{run}", l.run, "{protect}", l.protect, "{state}", l.state,
		"{public}", l.public, "{root}", l.root, "{attack}", built.attack,
	}, words...)...)
}

// attempt runs one attack, inside or not.
func (a attack) attempt(t *testing.T, l *lab, inside bool) result {
	t.Helper()
	var words []string
	if a.prepare != nil {
		words = a.prepare(t, l)
	}
	argv := []string{built.attack}
	for _, arg := range a.args {
		argv = append(argv, l.place(words).Replace(arg))
	}
	c := launch{argv: argv, policy: workspaceOnly()}
	if a.policy != nil {
		c.policy = a.policy
	}
	if a.files != nil {
		c.files = a.files(t, l)
	}
	if inside {
		return l.wrap(t, c)
	}
	return l.direct(t, c)
}

const (
	exitHeld        = 10
	exitUnsupported = 11
)

func TestAttacks(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name, a := range attacks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("control", func(t *testing.T) { a.control(t) })
			t.Run("inside", func(t *testing.T) { a.inside(t) })
		})
	}
}

func (a attack) inside(t *testing.T) {
	l := newLab(t)
	res := a.attempt(t, l, true)
	switch {
	case res.code == exitUnsupported && a.noControl == "" && a.attempt(t, newLab(t), false).code != exitUnsupported:
		t.Errorf("%v is only unsupported inside: %v", a.args, res)
	case res.code == exitUnsupported:
		t.Skipf("this kernel can't: %s", res.stdout)
	case res.code != exitHeld || !strings.HasPrefix(res.stdout, "HELD"):
		t.Errorf("%v was not held: %v", a.args, res)
	}
	if a.after != nil {
		a.after(t, l)
	}
}

func (a attack) control(t *testing.T) {
	switch {
	case a.noControl != "":
		t.Skipf("no control: %s", a.noControl)
	case a.root && os.Getuid() != 0:
		t.Skip("no control: only root can do it outside")
	}
	l := newLab(t)
	res := a.attempt(t, l, false)
	if res.code == exitUnsupported {
		t.Skipf("this kernel can't: %s", res.stdout)
	}
	if res.code != 0 || !strings.HasPrefix(res.stdout, "DID") {
		t.Errorf("%v doesn't work without a sandbox, so it proves nothing: %v", a.args, res)
	}
}

// unchanged says that a file on the host still holds this.
func unchanged(path, want string) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) {
		t.Helper()
		if got := read(t, l.place(nil).Replace(path)); got != want {
			t.Errorf("%s changed on the host: %q", path, got)
		}
	}
}

// absent says that nothing stands at a path on the host.
func absent(path string) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) {
		t.Helper()
		if _, err := os.Lstat(l.place(nil).Replace(path)); err == nil {
			t.Errorf("%s exists on the host", path)
		}
	}
}

// noSetuid checks the host's file.
func noSetuid(path string) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) {
		t.Helper()
		path := l.place(nil).Replace(path)
		if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeSetuid != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// open opens a file of the lab to be inherited as descriptor n.
func open(n int, path string) func(*testing.T, *lab) []*os.File {
	return func(t *testing.T, l *lab) []*os.File {
		t.Helper()
		f, err := os.Open(filepath.Join(l.root, path))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files := make([]*os.File, n-2)
		files[n-3] = f
		return files
	}
}

// number is a system call number or a flag as the attack program reads it.
func number[T ~int | ~uint | ~uintptr | ~int64 | ~uint64](n T) string {
	return strconv.FormatUint(uint64(n), 10)
}
