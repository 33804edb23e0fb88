package recover

import (
	"errors"
	"fmt"

	"pinfold/plan"
)

// Proof is one thing that must hold, by the name that the verdict uses.
type Proof string

// The proofs, in order.
const (
	// ProofRecord: the record is the caller's own, and whole.
	ProofRecord Proof = "record"
	// ProofDigest: the plan is the one that the caller knows.
	ProofDigest Proof = "digest"
	// ProofBoot: the record is of this boot; pids of another mean nothing.
	ProofBoot Proof = "boot"
	// ProofParent: the parent lives, and is the caller's to ask about.
	ProofParent Proof = "parent"
	// ProofOnlyRoot: the parent runs nothing but the recorded root.
	ProofOnlyRoot Proof = "only_root"
	// ProofRoot: the root is the recorded process, by its start time.
	ProofRoot Proof = "root"
	// ProofExecutable: the root runs the recorded program, by device and inode.
	ProofExecutable Proof = "executable"
	// ProofHoldsRecord: the root holds this record's directory open.
	ProofHoldsRecord Proof = "holds_record"
	// ProofAfterPin: the sandbox is younger than the plan.
	ProofAfterPin Proof = "after_pin"
	// ProofBubblewrap: below the root stands the recorded bubblewrap alone, in
	// the host's namespaces.
	ProofBubblewrap Proof = "bubblewrap"
	// ProofInit: below that stands the sandbox's pid 1 alone.
	ProofInit Proof = "init"
	// ProofNamespaces: every process below is in the recorded namespaces, and
	// they aren't the caller's.
	ProofNamespaces Proof = "namespaces"
	// ProofPrivileges: every process below has no_new_privs, its filters, and
	// no capability in any set.
	ProofPrivileges Proof = "privileges"
	// ProofMaps: users and groups are mapped as recorded.
	ProofMaps Proof = "id_maps"
	// ProofMounts: the mount table is the recorded one.
	ProofMounts Proof = "mounts"
	// ProofCanaries: what the plan claims was tried before the command ran.
	ProofCanaries Proof = "canaries"
	// ProofCommand: below the root stands the recorded command (macOS).
	ProofCommand Proof = "command"
	// ProofGone: what is recorded as ended has ended.
	ProofGone Proof = "gone"
)

// State is what the record's launch is doing.
type State string

// The states.
const (
	Running    State = "running"
	Exited     State = "exited"      // with the exit in the verdict, if it was recorded
	NotStarted State = "not_started" // pinned, and nothing started
	Lost       State = "lost"        // gone without a recorded exit
)

// Verdict is the answer.
type Verdict struct {
	Adoptable bool   `json:"adoptable"`
	State     State  `json:"state,omitempty"`
	Record    string `json:"record"`
	Digest    string `json:"digest,omitempty"`
	// Proof is the first that failed, Why what was seen, Fix what to do.
	Proof Proof  `json:"failed_proof,omitempty"`
	Why   string `json:"why,omitempty"`
	Fix   string `json:"fix,omitempty"`
	// Held are the proofs that held before that.
	Held []Proof `json:"held"`
	// NotProven says what nobody can prove on this system.
	NotProven []string   `json:"not_proven,omitempty"`
	Exit      *plan.Exit `json:"exit,omitempty"`
	Root      int        `json:"root_pid,omitempty"`
	Command   int        `json:"command_pid,omitempty"`
	Processes int        `json:"processes,omitempty"` // inside the boundary
}

// errRefuted is a proof that failed: a conclusive no, unlike any other error.
type errRefuted struct {
	proof Proof
	why   string
	fix   string
}

func (e *errRefuted) Error() string { return fmt.Sprintf("%s: %s", e.proof, e.why) }

// refuted says that a proof failed.
func refuted(p Proof, format string, args ...any) error {
	return &errRefuted{proof: p, why: fmt.Sprintf(format, args...)}
}

// ErrUnclear is an answer that couldn't be had: nothing is adopted on it.
var ErrUnclear = errors.New("cannot tell")

func unclear(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnclear, fmt.Sprintf(format, args...))
}
