package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"pinfold/plan"
	"pinfold/policy"
)

func (p *program) trustCommand() *cli.Command {
	var forget bool
	return &cli.Command{
		Name:      "trust",
		Usage:     "let a .pinfold file be used by itself, as it stands now",
		ArgsUsage: "FILE",
		Description: "The policy, every file that it extends and what it builds an image from (a\n" +
			"Dockerfile, and all that is sent along) are pinned by digest in the state\n" +
			"directory. A launch in that directory or beneath it then uses it without\n" +
			"--policy, until one of the files changes.",
		Flags: []cli.Flag{yes("forget", "take the trust back", &forget)},
		Action: func(c *cli.Context) error {
			file, err := oneArg(c, "FILE")
			if err != nil {
				return err
			}
			if forget {
				return p.forget(file)
			}
			return p.trust(c.Context, file)
		},
	}
}

// pin is a trusted policy: the digest of every file that it is made of.
type pin struct {
	File    string            `json:"file"`
	Sources map[string]string `json:"sources"` // path: SHA-256 in hex
	// Inputs are what it builds an image from, and the like: field and path.
	Inputs map[string]string `json:"inputs,omitempty"`
}

func (p *program) trust(ctx context.Context, file string) error {
	path, err := placeOf(file)
	if err != nil {
		return err
	}
	if !isDiscoverable(filepath.Base(path)) {
		return &usageError{
			why: fmt.Sprintf("cannot trust %q: only files named %s are looked for", file, strings.Join(discoverable, ", ")),
			fix: "rename it, or pass it with --policy, which needs no trust",
		}
	}
	pol, err := policy.Load(path)
	if err != nil {
		return err
	}
	state, err := p.stateDir()
	if err != nil {
		return err
	}
	inputs, err := pinInputs(ctx, pol, path, hereVars(filepath.Dir(path)))
	if err != nil {
		return err
	}
	if err := writePin(state, pin{File: path, Sources: digests(pol), Inputs: inputs}); err != nil {
		return stateRefusal(state, "cannot keep the trust in", err)
	}
	_, err = fmt.Fprintf(p.Out, "trusted %s\n", oneLine(path))
	return err
}

func (p *program) forget(file string) error {
	path, err := placeOf(file)
	if err != nil {
		return err
	}
	state, err := p.stateDir()
	if err != nil {
		return err
	}
	err = os.Remove(pinFile(state, path))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget %q: it isn't trusted", file)
	}
	if err != nil {
		return stateRefusal(state, "cannot take the trust back in", err)
	}
	_, err = fmt.Fprintf(p.Out, "no longer trusted %s\n", oneLine(path))
	return err
}

// placeOf is where a policy file stands: its canonical directory, and its
// name there. What the name leads to, where it is a link, doesn't matter: a
// link to a policy that was trusted for another place is not trusted here.
func placeOf(file string) (string, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fmt.Errorf("cannot find the directory of %q: %w", file, cause(err))
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// digests are the files that a policy was made of. They are of the bytes that
// were parsed, so a file can't change between the look and the use.
func digests(pol *policy.Policy) map[string]string {
	out := map[string]string{}
	for _, s := range pol.Sources {
		out[s.File] = hex.EncodeToString(s.SHA256[:])
	}
	return out
}

// pinFile is where the pin of a path is kept: one file each, so that no lock
// is needed.
func pinFile(state, path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(state, "trust", hex.EncodeToString(sum[:])+".json")
}

func writePin(state string, t pin) error {
	text, err := plan.EncodeNote(t)
	if err != nil {
		return err
	}
	name := pinFile(state, t.File)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".pin-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(text, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// readPin returns the pin of a path, or nil where there is none.
func readPin(state, path string) (*pin, error) {
	text, err := readPlain(pinFile(state, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no pin is an answer, not an error
	}
	if err != nil {
		return nil, stateRefusal(state, "cannot read the trusted policies in", err)
	}
	var t pin
	if err := plan.DecodeNote(text, &t); err != nil || t.File != path {
		return nil, stateRefusal(state, "cannot read the trusted policies in", errors.New("a pin is damaged"))
	}
	return &t, nil
}

// readPlain reads a file that pinfold wrote: no link was ever one, and what it
// leads to could be another's to write.
func readPlain(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (t *pin) holds(pol *policy.Policy) bool {
	return maps.Equal(t.Sources, digests(pol))
}
