package recover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pinfold/plan"
	"pinfold/seatbelt"
)

// seatNotProven is what nobody can prove on macOS without code of Apple's:
// that the processes are still under the profile (a profile can't be taken
// off, and what is started under it has it too, sandbox(7); that they were
// started under it is what is proven), that the program that runs is the file
// now at its path, who it is that holds the record's lock, and that nothing
// of the run lives outside its tree.
var seatNotProven = []string{"profile_in_force", "executable_image", "record_holder", "detached_processes"}

// logPath is the program that a supervisor may run beside the command.
const logPath = "/usr/bin/log"

// seatProver is one run of Prove on macOS.
type seatProver struct {
	claim   Claim
	run     *seatRun
	stored  *plan.Stored
	verdict Verdict
	table   []seatbelt.Proc
	exe     func(pid int) (plan.File, string, error)
}

// proveSeat tries the proofs in order.
func proveSeat(ctx context.Context, c Claim, exe func(int) (plan.File, string, error)) (Verdict, error) {
	p := &seatProver{claim: c, verdict: Verdict{Record: c.Record, Held: []Proof{}}, exe: exe}
	err := p.prove(ctx)
	if no, isNo := errors.AsType[*errRefuted](err); isNo {
		p.verdict.Proof, p.verdict.Why, p.verdict.Fix = no.proof, no.why, no.fix
		return p.verdict, nil
	}
	if err != nil && !errors.Is(err, ErrUnclear) {
		err = fmt.Errorf("%w: %w", ErrUnclear, err)
	}
	if err != nil {
		return Verdict{}, err
	}
	p.verdict.Adoptable = true
	return p.verdict, nil
}

type seatStep struct {
	proof Proof
	try   func() error
}

func (p *seatProver) take(ctx context.Context, steps ...seatStep) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return unclear("%v", err)
		}
		if err := s.try(); err != nil {
			return err
		}
		p.verdict.Held = append(p.verdict.Held, s.proof)
	}
	return nil
}

func (p *seatProver) prove(ctx context.Context) error {
	err := p.take(ctx, seatStep{ProofRecord, p.proveRecord}, seatStep{ProofDigest, p.proveDigest}, seatStep{ProofBoot, p.proveBoot})
	if err != nil {
		return err
	}
	p.verdict.State = p.run.state
	switch p.run.state {
	case Starting:
		return unclear("the launch is just starting")
	case Exited:
		return p.take(ctx, seatStep{ProofGone, p.proveGone}, seatStep{ProofOnlyRoot, p.proveIdle})
	case NotStarted:
		return p.take(ctx, seatStep{ProofParent, p.proveParent}, seatStep{ProofOnlyRoot, p.proveNoChild})
	case Lost:
		return &errRefuted{proof: ProofRoot, why: "the root has gone without recording an exit: it was killed", fix: "pinfold reap"}
	}
	p.verdict.NotProven = seatNotProven
	return p.take(ctx,
		seatStep{ProofParent, p.proveParent}, seatStep{ProofOnlyRoot, p.proveOnlyRoot}, seatStep{ProofRoot, p.proveRoot},
		seatStep{ProofExecutable, p.proveExecutable}, seatStep{ProofHoldsRecord, p.proveHoldsRecord},
		seatStep{ProofAfterPin, p.proveAfterPin}, seatStep{ProofCommand, p.proveCommand},
	)
}

func (p *seatProver) proveRecord() (err error) {
	if p.run, err = openSeat(p.claim.Record); err != nil {
		return refuted(ProofRecord, "%v", err)
	}
	p.stored = p.run.stored
	p.verdict.Record, p.verdict.Digest, p.verdict.Exit = p.stored.Path, p.stored.Digest, p.stored.Exit
	if r := p.stored.Root; r != nil {
		p.verdict.Root, p.verdict.Command = r.Supervisor.PID, r.Command.PID
	}
	return nil
}

func (p *seatProver) proveDigest() error {
	if p.claim.Digest != "" && p.claim.Digest != p.stored.Digest {
		return refuted(ProofDigest, "the record's plan is %s, not %s", p.stored.Digest, p.claim.Digest)
	}
	if b := p.stored.Plan.Backend; p.run.state != Starting && b != "seatbelt" {
		return refuted(ProofDigest, "the plan is for %q, which runs no process here", b)
	}
	return nil
}

func (p *seatProver) proveBoot() error {
	if p.stored.Root == nil {
		return nil
	}
	boot, err := seatbelt.BootID()
	if err == nil && boot != p.stored.Root.BootID {
		return &errRefuted{proof: ProofBoot, why: "the record is of another boot of this machine", fix: "pinfold reap"}
	}
	return err
}

// proveParent: it lives, and belongs to the caller. The table is read here,
// once for all proofs about who runs below whom.
func (p *seatProver) proveParent() (err error) {
	if p.claim.Parent <= 0 {
		return refuted(ProofParent, "no parent was named")
	}
	if p.table, err = seatbelt.ProcessTable(); err != nil {
		return err
	}
	parent, ok := p.row(p.claim.Parent)
	if !ok || parent.Ended {
		return &errRefuted{proof: ProofParent, why: fmt.Sprintf("the parent %d has gone", p.claim.Parent), fix: p.stopHint()}
	}
	if me := os.Geteuid(); me != 0 && parent.UID != me {
		return refuted(ProofParent, "the parent %d runs as user %d, not %d", parent.PID, parent.UID, me)
	}
	return nil
}

func (p *seatProver) stopHint() string {
	if p.stored.Root == nil {
		return ""
	}
	return "pinfold stop --record " + p.claim.Record
}

func (p *seatProver) row(pid int) (seatbelt.Proc, bool) {
	for _, q := range p.table {
		if q.PID == pid {
			return q, true
		}
	}
	return seatbelt.Proc{}, false
}

// children are those that run something.
func (p *seatProver) children(pid int) []seatbelt.Proc {
	var out []seatbelt.Proc
	for _, q := range p.table {
		if q.PPID == pid && !q.Ended {
			out = append(out, q)
		}
	}
	return out
}

func isRow(q seatbelt.Proc, was plan.Process) bool {
	return q.PID == was.PID && q.Start == was.StartTicks
}

func (p *seatProver) proveNoChild() error {
	if n := len(p.children(p.claim.Parent)); n > 0 {
		return refuted(ProofOnlyRoot, "the parent %d runs %d processes, and none is recorded", p.claim.Parent, n)
	}
	return nil
}

func (p *seatProver) proveOnlyRoot() error {
	if !p.run.supervisor {
		return &errRefuted{proof: ProofOnlyRoot, why: "the root has gone, and the command runs on without it", fix: p.stopHint()}
	}
	kids := p.children(p.claim.Parent)
	if len(kids) != 1 || !isRow(kids[0], p.stored.Root.Supervisor) {
		return refuted(ProofOnlyRoot, "below the parent %d run %d processes, not the root alone", p.claim.Parent, len(kids))
	}
	return nil
}

func (p *seatProver) proveRoot() error {
	root, _ := p.row(p.stored.Root.Supervisor.PID)
	if root.UID != p.stored.Root.Owner {
		return refuted(ProofRoot, "process %d runs as user %d, not %d as recorded", root.PID, root.UID, p.stored.Root.Owner)
	}
	return nil
}

func (p *seatProver) proveExecutable() error {
	pid := p.stored.Root.Supervisor.PID
	file, path, err := p.exe(pid)
	if err != nil {
		return err
	}
	if file != p.stored.Root.Exe {
		return refuted(ProofExecutable, "process %d runs %q, which isn't the recorded file", pid, path)
	}
	return nil
}

func (p *seatProver) proveHoldsRecord() error {
	held, err := plan.IsHeld(p.stored.Path)
	if err == nil && !held {
		return refuted(ProofHoldsRecord, "nobody holds the record %q", p.stored.Path)
	}
	return err
}

// proveAfterPin: start times are points in time here, as the time of a file
// is; elsewhere both are on the clock of the boot.
func (p *seatProver) proveAfterPin() error {
	r := p.stored.Root
	pinned := r.Pinned
	if pinned == 0 {
		info, err := os.Lstat(filepath.Join(p.stored.Path, "plan.json"))
		if err != nil {
			return err
		}
		pinned = uint64(info.ModTime().UnixMicro())
	}
	if r.Command.StartTicks < pinned || r.Command.StartTicks < r.Supervisor.StartTicks {
		return refuted(ProofAfterPin, "the command is older than the plan")
	}
	return nil
}

// proveCommand: below the root stands the recorded command, and beside it at
// most the system's log reader.
func (p *seatProver) proveCommand() error {
	root, found := p.stored.Root.Supervisor.PID, false
	for _, q := range p.children(root) {
		if isRow(q, p.stored.Root.Command) {
			found = true
			continue
		}
		if _, path, err := p.exe(q.PID); err != nil || path != logPath {
			return refuted(ProofCommand, "below the root runs process %d (%q), which isn't recorded", q.PID, path)
		}
	}
	if !found {
		return unclear("the launch is just ending")
	}
	list, err := seatbelt.RunOf(p.stored.Root.Command)
	p.verdict.Processes = len(list)
	if err == nil && len(list) == 0 {
		return unclear("the launch is just ending")
	}
	return err
}

// proveIdle: a parent that lives has no child but the root that is just
// ending.
func (p *seatProver) proveIdle() (err error) {
	if p.table, err = seatbelt.ProcessTable(); err != nil || p.claim.Parent <= 0 {
		return err
	}
	for _, q := range p.children(p.claim.Parent) {
		if p.stored.Root == nil || !isRow(q, p.stored.Root.Supervisor) {
			return refuted(ProofOnlyRoot, "the launch has ended, and its parent %d runs process %d now", p.claim.Parent, q.PID)
		}
	}
	return nil
}

func (p *seatProver) proveGone() error {
	r := p.stored.Root
	if r == nil {
		return nil
	}
	left, err := seatbelt.RunOf(r.Command)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return &errRefuted{
			proof: ProofGone, why: fmt.Sprintf("process %d of the run still runs though an exit is recorded", left[0].PID), fix: p.stopHint(),
		}
	}
	return nil
}
