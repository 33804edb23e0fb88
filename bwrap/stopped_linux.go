package bwrap

// stoppedByOthers makes an end that somebody else asked for, who knows the
// run by its record alone, one of that kind: they note in the journal what
// they are about to send. The code stays the command's own.
func (p *Process) stoppedByOthers() error {
	if p.o.Record == nil {
		return nil
	}
	sent, err := p.o.Record.Stop()
	if err != nil || sent == "" || p.exit.Reason != Exited && p.exit.Reason != Signaled {
		return err
	}
	p.exit.Reason, p.exit.Stop = Interrupted, sent
	return nil
}
