package recover

import (
	"errors"

	"pinfold/guard"
	"pinfold/plan"
)

// Starting is a launch whose supervisor has the record, and that runs nothing
// yet.
const Starting State = "starting"

// ErrLost is a launch that ended without recording how: its supervisor was
// killed, or the machine was.
var ErrLost = errors.New("the launch was killed, and how the command ended isn't known")

// ErrEnded is a signal for a command that has ended.
var ErrEnded = errors.New("the command has ended")

// Info is one record and what its launch is doing.
type Info struct {
	Record string `json:"record"`
	State  State  `json:"state"`
	// Why is what keeps anybody from telling: such a record has no state.
	Why       string      `json:"why,omitempty"`
	Digest    string      `json:"digest,omitempty"`
	Owner     guard.Owner `json:"owner"`
	Workspace string      `json:"workspace,omitempty"`
	Command   []string    `json:"command,omitempty"`
	Started   string      `json:"started,omitempty"` // RFC 3339
	Root      int         `json:"root_pid,omitempty"`
	PID       int         `json:"command_pid,omitempty"`
	// Mounts are what a living launch has mounted: nobody else should touch
	// those places meanwhile.
	Mounts []plan.Mount `json:"mounts,omitempty"`
	Exit   *plan.Exit   `json:"exit,omitempty"`
}

// Stopped is what a stop did.
type Stopped struct {
	Record string `json:"record"`
	// State is what the launch was doing before.
	State State `json:"state"`
	// Sent is what it took: "" for a launch that had ended, "term", "kill".
	Sent string `json:"sent"`
	// SupervisorKilled: the supervisor didn't see its sandbox's end, so it was
	// killed too, and what it would have cleaned is left to a reaping.
	SupervisorKilled bool       `json:"supervisor_killed,omitempty"`
	Exit             *plan.Exit `json:"exit,omitempty"`
}
