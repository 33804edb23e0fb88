package recover

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/seatbelt"
)

// Claim is what a caller wants proven.
type Claim struct {
	// Record is the record's directory.
	Record string
	// Parent is the process that started the root.
	Parent int
	// Digest is the plan's, where the caller kept it; "" takes the record's.
	Digest string
}

// Run is a recorded launch, its processes known by pid and start time. For
// adopting one, [Prove] is what counts.
type Run struct{ *seatRun }

// lives reports whether the launch goes on. A run whose supervisor has gone
// may go on by itself here: nothing ends it but a stop.
func (r *Run) lives(context.Context) (bool, error) {
	return r.state == Starting || r.state == Running, nil
}

// Open reads a record and looks at what runs of its launch.
func Open(record string) (*Run, error) {
	r, err := openSeat(record)
	if err != nil {
		return nil, err
	}
	return &Run{r}, nil
}

// OpenStarted is [Open] for a record whose launch may have begun just now: it
// waits until that runs, or has failed to.
func OpenStarted(ctx context.Context, record string) (*Run, error) {
	r, err := openSeatStarted(ctx, record)
	if err != nil {
		return nil, err
	}
	return &Run{r}, nil
}

// Prove tries the proofs in order. An error means that nobody can tell; a
// verdict that isn't adoptable names the first proof that failed.
func Prove(ctx context.Context, c Claim) (Verdict, error) { return proveSeat(ctx, c, executable) }

// executable is the program of a process, by the path that the kernel keeps
// at the head of its arguments (sysctl kern.procargs2: a count of four bytes,
// then the path). The process itself can't change it; what stands at the path
// now is looked at.
func executable(pid int) (plan.File, string, error) {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return plan.File{}, "", fmt.Errorf("cannot learn the program of process %d: %w", pid, err)
	}
	if len(b) < 5 {
		return plan.File{}, "", fmt.Errorf("cannot learn the program of process %d: the answer has %d bytes", pid, len(b))
	}
	path, _, _ := strings.Cut(string(b[4:]), "\x00")
	file, err := seatbelt.FileOf(path)
	return file, path, err
}
