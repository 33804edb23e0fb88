package bwrap

import "errors"

// writeEnd records how the run ended.
func (p *Process) writeEnd() error {
	sent, err := p.sentByOthers()
	if sent != "" && (p.exit.Reason == Exited || p.exit.Reason == Signaled) {
		p.exit.Reason, p.exit.Stop = Interrupted, sent
	}
	return errors.Join(err, writeExit(p.o.Record, p.exit))
}

// writeFailure records how a launch ended that didn't get to its command,
// perhaps since it was stopped on the way there.
func (p *Process) writeFailure(e Exit) error {
	sent, err := p.sentByOthers()
	if sent != "" {
		e.Reason, e.Stop = Interrupted, sent
	}
	return errors.Join(err, writeExit(p.o.Record, e))
}

// sentByOthers is what somebody else has sent, or "": they know the run by its
// record alone, and note in the journal what they are about to send. The exit
// code stays what it is.
func (p *Process) sentByOthers() (string, error) {
	if p.o.Record == nil {
		return "", nil
	}
	return p.o.Record.Stop()
}
