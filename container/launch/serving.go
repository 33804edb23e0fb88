package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pinfold/container"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// Serving is what a supervisor serves for its container: what another one has
// to know that takes over. It lies beside the hand-over, in a directory that
// nobody else comes by.
type Serving struct {
	Network   policy.Network    `json:"network"`
	Listen    []string          `json:"listen"`
	Proxy     string            `json:"proxy"`
	HostPorts []uint16          `json:"host_ports"`
	Relays    []container.Relay `json:"relays"`
	Limits    policy.Limits     `json:"limits"`
	Run       string            `json:"run"`
}

const servingName = "serving"

// write keeps it for another supervisor.
func (s Serving) write(d Dirs) error {
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.Root, servingName), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot note what is served: %w", err)
	}
	return nil
}

// ReadServing reads what the first supervisor wrote.
func ReadServing(d Dirs) (Serving, error) {
	var s Serving
	b, err := os.ReadFile(filepath.Join(d.Root, servingName))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("cannot read what was served: %w", err)
	}
	return s, nil
}

// Notes are what the stub wrote for whoever comes after the supervisor.
type Notes struct {
	// Termed: SIGTERM came from outside of the container.
	Termed bool
	// Ended: the command has ended, by Signal if that isn't zero.
	Ended  bool
	Signal int
}

// ReadNotes reads them; a container that nothing was noted of has none.
func ReadNotes(d Dirs) (Notes, error) {
	var n Notes
	b, err := os.ReadFile(filepath.Join(d.Root, NotesName))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("cannot read the stub's notes: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case wire.NoteTerm:
			n.Termed = true
		case wire.NoteExit:
			n.Ended = true
		case wire.NoteSignal:
			n.Ended = true
			if n.Signal, err = strconv.Atoi(number); err != nil {
				return n, fmt.Errorf("cannot read the stub's notes: %w", err)
			}
		}
	}
	return n, nil
}
