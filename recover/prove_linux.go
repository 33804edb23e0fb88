package recover

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pinfold/plan"
)

// Claim is what a caller wants proven.
type Claim struct {
	// Record is the record's directory.
	Record string
	// Parent is the process that the caller left running and that started the
	// root: the wrapper that outlived the daemon.
	Parent int
	// Digest is the plan's, where the caller kept it; "" takes the record's.
	Digest string
}

// verdictOf is one try of all proofs.
func (p *prover) verdictOf() (Verdict, error) {
	defer p.close()
	err := p.prove()
	if no, isNo := errors.AsType[*errRefuted](err); isNo {
		p.verdict.Adoptable = false
		p.verdict.Proof, p.verdict.Why, p.verdict.Fix = no.proof, no.why, no.fix
		return p.verdict, nil
	}
	if err != nil {
		if !errors.Is(err, ErrUnclear) {
			err = fmt.Errorf("%w: %w", ErrUnclear, err)
		}
		return Verdict{}, err
	}
	p.verdict.Adoptable = true
	return p.verdict, nil
}

// prover is one run of Prove.
type prover struct {
	ctx     context.Context //nolint:containedctx // one run, one context
	claim   Claim
	stored  *plan.Stored
	dir     plan.File // of the record
	own     *process  // the caller
	verdict Verdict

	parent, root, bwrap, init *process
	hostSpaces                spaces
	tree                      *tree
	// exactMounts: no mount may come or go, whoever's it is.
	exactMounts bool
}

func (p *prover) close() {
	p.tree.close()
	for _, held := range []*process{p.own, p.parent, p.root, p.bwrap, p.init} {
		if held != nil {
			held.close()
		}
	}
}

// prove takes the steps that every record has, then those of its state.
func (p *prover) prove() error {
	for _, s := range []step{
		{ProofRecord, p.proveRecord}, {ProofDigest, p.proveDigest}, {ProofBoot, p.proveBoot},
	} {
		if err := p.take(s); err != nil {
			return err
		}
	}
	switch {
	case p.stored.Exit != nil:
		return p.proveExited()
	case p.stored.Root == nil:
		return p.proveNotStarted()
	}
	return p.proveRunning()
}

// step is one proof and how it is had.
type step struct {
	proof Proof
	try   func() error
}

func (p *prover) take(s step) error {
	if err := p.ctx.Err(); err != nil {
		return unclear("%v", err)
	}
	if err := s.try(); err != nil {
		return err
	}
	p.verdict.Held = append(p.verdict.Held, s.proof)
	return nil
}

func (p *prover) proveRecord() error {
	s, err := plan.ReadRecord(p.claim.Record)
	if err != nil {
		return refuted(ProofRecord, "%v", err)
	}
	if p.dir, err = fileAt(s.Path); err != nil {
		return err
	}
	p.stored = s
	p.verdict.Record, p.verdict.Digest = s.Path, s.Digest
	if s.Root != nil {
		p.verdict.Root, p.verdict.Command = s.Root.Supervisor.PID, s.Root.Command.PID
	}
	return nil
}

func (p *prover) proveDigest() error {
	if p.claim.Digest != "" && p.claim.Digest != p.stored.Digest {
		return refuted(ProofDigest, "the record's plan is %s, not %s", p.stored.Digest, p.claim.Digest)
	}
	if p.stored.Plan.Backend != "bwrap" {
		return refuted(ProofDigest, "the plan is for %q, which runs no process here", p.stored.Plan.Backend)
	}
	return nil
}

func (p *prover) proveBoot() error {
	if p.stored.Root == nil {
		return nil // nothing was started, in this boot or another
	}
	same, err := isThisBoot(p.stored.Root)
	if err != nil {
		return err
	}
	if !same {
		return &errRefuted{
			proof: ProofBoot, why: "the record is of another boot: nothing of it runs any more",
			fix: "pinfold reap",
		}
	}
	return nil
}

// proveParent holds the parent: it lives, and belongs to the caller.
func (p *prover) proveParent() error {
	if p.claim.Parent <= 0 {
		return refuted(ProofParent, "no parent was named")
	}
	parent, err := hold(p.claim.Parent)
	if errors.Is(err, errGone) {
		return &errRefuted{proof: ProofParent, why: fmt.Sprintf("the parent %d has gone", p.claim.Parent), fix: p.stopHint()}
	}
	if err != nil {
		return err
	}
	p.parent = parent
	if parent.state == 'Z' || parent.alive() != nil {
		return &errRefuted{proof: ProofParent, why: fmt.Sprintf("the parent %d has ended", parent.pid), fix: p.stopHint()}
	}
	uid, err := parent.uid()
	if err != nil {
		return err
	}
	if me := os.Geteuid(); me != 0 && uid != me {
		return refuted(ProofParent, "the parent %d runs as user %d, not %d", parent.pid, uid, me)
	}
	return nil
}

func (p *prover) stopHint() string {
	if p.stored.Root == nil {
		return ""
	}
	return "pinfold stop --record " + p.claim.Record
}

// living are the children of a process that run something, held.
func living(of *process) ([]*process, error) {
	pids, err := of.children()
	if err != nil {
		return nil, err
	}
	var out []*process
	for _, pid := range pids {
		p, err := hold(pid)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			closeAll(out)
			return nil, err
		}
		if p.state == 'Z' || p.state == 'X' {
			p.close()
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

func closeAll(list []*process) {
	for _, p := range list {
		p.close()
	}
}

// onlyChild is the one child of a process, which must be the recorded one.
func onlyChild(of *process, want plan.Process, proof Proof, name string) (*process, error) {
	kids, err := living(of)
	if err != nil {
		return nil, err
	}
	if len(kids) != 1 {
		defer closeAll(kids)
		return nil, refuted(proof, "below process %d run %d processes, not %s alone", of.pid, len(kids), name)
	}
	if !kids[0].is(want) {
		defer closeAll(kids)
		return nil, refuted(proof, "process %d below %d is not the recorded %s (pid %d, started at tick %d)",
			kids[0].pid, of.pid, name, want.PID, want.StartTicks)
	}
	return kids[0], nil
}

func (p *prover) steps(list []step) error {
	for _, s := range list {
		if err := p.take(s); err != nil {
			return err
		}
	}
	return nil
}

// proveRunning is the whole chain.
func (p *prover) proveRunning() error {
	p.verdict.State = Running
	p.verdict.NotProven = []string{"landlock"}
	if err := p.lost(); err != nil {
		return err
	}
	err := p.steps([]step{
		{ProofParent, p.proveParent},
		{ProofOnlyRoot, p.proveOnlyRoot},
		{ProofRoot, p.proveRoot},
		{ProofExecutable, p.proveExecutable},
		{ProofHoldsRecord, p.proveHoldsRecord},
		{ProofAfterPin, p.proveAfterPin},
		{ProofBubblewrap, p.proveBubblewrap},
		{ProofInit, p.proveInit},
	})
	if err == nil {
		err = p.proveInside()
	}
	if err != nil {
		return err
	}
	return p.stillThere()
}

func (p *prover) proveOnlyRoot() error {
	root, err := onlyChild(p.parent, p.stored.Root.Supervisor, ProofOnlyRoot, "root")
	p.root = root
	return err
}

// proveRoot: a child of the parent by its pid and start time is the recorded
// process, unless it was handed down by somebody who has ended since.
func (p *prover) proveRoot() error {
	if p.root.ppid != p.parent.pid {
		return refuted(ProofRoot, "process %d is a child of %d, not of the parent %d", p.root.pid, p.root.ppid, p.parent.pid)
	}
	uid, err := p.root.uid()
	if err != nil {
		return err
	}
	if uid != p.stored.Root.Owner {
		return refuted(ProofRoot, "process %d runs as user %d, not %d as recorded", p.root.pid, uid, p.stored.Root.Owner)
	}
	return nil
}

func (p *prover) proveExecutable() error {
	exe, err := p.root.exe()
	if err != nil {
		return err
	}
	if exe != p.stored.Root.Exe {
		return refuted(ProofExecutable, "process %d runs device %d inode %d, not device %d inode %d as recorded",
			p.root.pid, exe.Dev, exe.Ino, p.stored.Root.Exe.Dev, p.stored.Root.Exe.Ino)
	}
	return nil
}

func (p *prover) proveHoldsRecord() error {
	holds, err := p.root.holds(p.dir)
	if err != nil {
		return err
	}
	if !holds {
		return refuted(ProofHoldsRecord, "process %d doesn't hold the record %q", p.root.pid, p.stored.Path)
	}
	return nil
}

// proveAfterPin: start times are on the clock that the pin was taken on.
func (p *prover) proveAfterPin() error {
	r := p.stored.Root
	if r.Bwrap.StartTicks < r.Pinned || r.Bwrap.StartTicks < r.Supervisor.StartTicks ||
		r.Init.StartTicks < r.Bwrap.StartTicks || r.Command.StartTicks < r.Init.StartTicks {
		return refuted(ProofAfterPin, "the recorded processes are older than the plan, or out of order")
	}
	return nil
}

func (p *prover) proveBubblewrap() (err error) {
	if p.bwrap, err = onlyChild(p.root, p.stored.Root.Bwrap, ProofBubblewrap, "bubblewrap"); err != nil {
		return err
	}
	if p.own, err = hold(os.Getpid()); err != nil {
		return err
	}
	if p.hostSpaces, err = p.own.namespaces(); err != nil {
		return err
	}
	got, err := p.bwrap.namespaces()
	if err != nil {
		return err
	}
	for _, name := range []string{"user", "mnt", "pid", "net"} {
		if got.of(name) != p.hostSpaces.of(name) {
			return refuted(ProofBubblewrap, "bubblewrap %d is in another %s namespace than the caller", p.bwrap.pid, name)
		}
	}
	return nil
}

func (p *prover) proveInit() (err error) {
	if p.init, err = onlyChild(p.bwrap, p.stored.Root.Init, ProofInit, "sandbox's pid 1"); err != nil {
		return err
	}
	first, err := p.init.isFirst()
	if err == nil && !first {
		err = refuted(ProofInit, "process %d is not the first of a pid namespace", p.init.pid)
	}
	return err
}

// stillThere closes the chain: every process that was relied on is alive, so
// nothing of what was read is about a successor; and the parent still runs
// the root alone.
func (p *prover) stillThere() error {
	for _, held := range []*process{p.parent, p.root, p.bwrap, p.init} {
		if err := held.alive(); err != nil {
			return unclear("the launch is just ending: %v", err)
		}
	}
	for _, link := range []struct {
		of    *process
		want  plan.Process
		proof Proof
	}{
		{p.parent, p.stored.Root.Supervisor, ProofOnlyRoot},
		{p.root, p.stored.Root.Bwrap, ProofBubblewrap},
		{p.bwrap, p.stored.Root.Init, ProofInit},
	} {
		again, err := onlyChild(link.of, link.want, link.proof, "recorded child")
		if err != nil {
			return err
		}
		again.close()
	}
	return nil
}
