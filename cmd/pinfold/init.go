package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

// starter is the policy that init writes: what the built-in one grants, with
// the places where most people add something.
const starter = `// What a command that is run here may do. Everything it doesn't say stays shut.
// 'pinfold check' reads it; 'pinfold plan -- CMD' shows what comes of it.
{
  "version": 1,

  // May be written. "?" leaves a path out where it is missing.
  "write": [
    "{workspace}",
    // "?~/.cache/go-build",
  ],

  // The host is readable, less credentials and sockets. More to deny:
  "read": {
    "deny": [
      // "~/notes",
    ],
  },

  // May be reached, by name. Nothing else is.
  "network": {
    "allow": [
      // "api.anthropic.com",
      // "packages.example.org",
    ],
  },

  "env": {
    // Variables that look like credentials are withheld unless listed.
    "secrets": [
      // "ANTHROPIC_API_KEY",
    ],
  },
}
`

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write a starter policy",
		ArgsUsage: "[FILE]",
		Action: func(c *cli.Context) error {
			file := ".pinfold.jsonc"
			if c.NArg() > 0 {
				var err error
				if file, err = oneArg(c, "FILE"); err != nil {
					return err
				}
			}
			if err := writeNew(file, starter); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.Out, "wrote %s; when it says what you want, %s\n", oneLine(file), howToUse(file))
			return err
		},
	}
}

func howToUse(file string) string {
	if isDiscoverable(filepath.Base(file)) {
		return "run: pinfold trust " + oneLine(file)
	}
	return "pass it: pinfold wrap --policy " + oneLine(file) + " -- CMD"
}

// writeNew never touches what is there already, a symbolic link included.
func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a policy is no secret
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write %q: it exists already", file)
	}
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", file, cause(err))
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write %q: %w", file, errors.Join(cause(err), os.Remove(file)))
	}
	return nil
}
