package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pinfold/container"
	"pinfold/guard"
	"pinfold/plan"
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
	Watches   []guard.Watch     `json:"watches"`
	Reach     *container.Reach  `json:"reach,omitempty"`
	Run       string            `json:"run"`
}

const servingName = "serving"

// Point is one mount that has to stay, with what stands under it on the host.
type Point struct {
	Target string `json:"target"`
	ID     int    `json:"id"` // of the mount
	// Inside: it lies in another mount of the host's, where Dev and Ino name
	// what stands at its path.
	Inside bool   `json:"inside"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
}

const pointsName = "points"

func writePoints(d Dirs, points []Point) error {
	return writeJSON(filepath.Join(d.Root, pointsName), points)
}

// readPoints reads what the first supervisor found.
func readPoints(d Dirs) (points []Point, err error) {
	return points, readJSON(filepath.Join(d.Root, pointsName), &points)
}

const leasedName = "leased"

// writeLeased notes what another supervisor has to give up in the end.
func writeLeased(d Dirs, covered []string) error {
	return writeJSON(filepath.Join(d.Root, leasedName), covered)
}

func readLeased(d Dirs) (covered []string, err error) {
	return covered, readJSON(filepath.Join(d.Root, leasedName), &covered)
}

func writeJSON(name string, v any) error {
	b, err := plan.EncodeNote(v)
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot note what is served: %w", err)
	}
	return nil
}

func readJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err == nil {
		err = plan.DecodeNote(b, v)
	}
	if err != nil {
		return fmt.Errorf("cannot read what was served: %w", err)
	}
	return nil
}

// write keeps it for another supervisor.
func (s Serving) write(d Dirs) error { return writeJSON(filepath.Join(d.Root, servingName), s) }

// ReadServing reads what the first supervisor wrote.
func ReadServing(d Dirs) (Serving, error) {
	var s Serving
	return s, readJSON(filepath.Join(d.Root, servingName), &s)
}

// Notes are what the stub wrote for whoever comes after the supervisor.
type Notes struct {
	// Termed: SIGTERM came from outside of the container.
	Termed bool
	// Ended: the command has ended, by Signal if that isn't zero, else with
	// Code.
	Ended        bool
	Signal, Code int
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
			n.Code, err = strconv.Atoi(number)
		case wire.NoteSignal:
			n.Ended = true
			n.Signal, err = strconv.Atoi(number)
		}
		if err != nil {
			return n, fmt.Errorf("cannot read the stub's notes: %w", err)
		}
	}
	return n, nil
}
