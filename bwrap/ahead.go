package bwrap

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pinfold/plan"
)

// versionsFile remembers bubblewrap's version in the state directory.
const versionsFile = "bubblewrap.json"

// Ahead looks at the machine while the guard looks at the launch: neither
// waits for the other.
type Ahead struct {
	ctx     context.Context //nolint:containedctx // it is one call in two parts
	path    string
	cache   string
	done    chan struct{}
	steps   []string // everything that the way to bubblewrap leads through
	machine Machine
	err     error
	stub    chan *os.File // the stub in a sealed memfd, or nil
}

// LookAhead begins to look. It runs nothing: until the guard has answered,
// what is found on the PATH may be the command's own. So it succeeds only for
// a bubblewrap whose version an earlier launch wrote into the state directory.
func LookAhead(ctx context.Context, path, state string) *Ahead {
	a := &Ahead{ctx: ctx, path: path, cache: filepath.Join(state, versionsFile), done: make(chan struct{}), stub: make(chan *os.File, 1)}
	go func() {
		defer close(a.done)
		a.machine, a.err = a.look()
	}()
	go func() {
		defer close(a.stub)
		a.stub <- holdStub()
		plan.Prime()
	}()
	return a
}

func (a *Ahead) look() (Machine, error) {
	found, err := search(a.path, func(step string) bool {
		a.steps = append(a.steps, step)
		return false
	})
	if err != nil {
		return Machine{}, err
	}
	known, err := a.known()
	if err != nil {
		return Machine{}, err
	}
	version, err := remembered(known, found)
	if err != nil {
		return Machine{}, err
	}
	m, err := Probe(a.ctx, plan.Tool{Path: found, Version: version})
	m.Whole = m.UID != 0 && knownWhole(known)
	return m, err
}

// Machine is the machine, once the guard has said what the command may write.
// If bubblewrap lies there, or isn't remembered, it is located anew.
func (a *Ahead) Machine(writable func(path string) bool) (Machine, error) {
	<-a.done
	if a.err == nil && !slices.ContainsFunc(a.steps, writable) {
		return a.machine, nil
	}
	tool, err := Locate(a.ctx, a.path, writable)
	if err != nil {
		return Machine{}, err
	}
	a.remember(tool)
	return Probe(a.ctx, tool)
}

// known is what earlier launches have written down.
func (a *Ahead) known() (known map[string]string, err error) {
	text, err := os.ReadFile(a.cache)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	return known, err
}

// remembered is the version of a bubblewrap that hasn't changed since.
func remembered(known map[string]string, path string) (string, error) {
	key, err := fingerprint(path)
	if err != nil {
		return "", err
	}
	if known[key] == "" {
		return "", fs.ErrNotExist
	}
	return known[key], nil
}

// remember keeps one version. That it can't be kept costs the next launch a
// few milliseconds, and is no error.
func (a *Ahead) remember(tool plan.Tool) {
	key, err := fingerprint(tool.Path)
	if err != nil {
		return
	}
	a.write(map[string]string{key: tool.Version})
}

func (a *Ahead) write(known map[string]string) {
	if text, err := json.Marshal(known); err == nil {
		_ = replaceFile(a.cache, text)
	}
}

// wholeKey is beside the versions; its value is the boot that it holds for.
const wholeKey = "mounts everything"

// replaceFile makes a file's content appear whole.
func replaceFile(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
