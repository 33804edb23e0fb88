package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The journal's words for a launch that another supervisor took over.
const (
	StepResumed    = "resumed"    // an action
	StepSupervisor = "supervisor" // a kind; the detail is the process, see [Resumed]
)

// Resumed is the step of a supervisor that takes over.
func Resumed(p Process, exe File) Step {
	return Step{
		Time: time.Now(), Action: StepResumed, Kind: StepSupervisor,
		Detail: fmt.Sprintf("%d %d %d %d", p.PID, p.StartTicks, exe.Dev, exe.Ino),
	}
}

// Supervisor is who supervises the launch: the one of the root file, or the
// last one that took over.
func (s *Stored) Supervisor() (Process, File) {
	p, exe := s.Root.Supervisor, s.Root.Exe
	for _, step := range s.Steps {
		if step.Action != StepResumed || step.Kind != StepSupervisor {
			continue
		}
		if n, ok := numbers(step.Detail); ok {
			p, exe = Process{PID: int(n[0]), StartTicks: n[1]}, File{Dev: n[2], Ino: n[3]}
		}
	}
	return p, exe
}

// numbers reads the detail of a [Resumed] step.
func numbers(detail string) (n [4]uint64, ok bool) {
	fields := strings.Fields(detail)
	if len(fields) != len(n) {
		return n, false
	}
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return n, false
		}
		n[i] = v
	}
	return n, true
}
