package launch

import (
	"errors"
	"fmt"
	"time"

	"pinfold/container"
	"pinfold/guard"
)

// socketsEvery is how often it is looked which unix sockets the host listens
// on. Nothing tells: no event is made of it, and sockets may appear anywhere in
// a grant.
const socketsEvery = 500 * time.Millisecond

// watchSockets ends the run once a unix socket that isn't listed shows in it,
// which the command could connect to. One that shows at once is refused, or,
// of a container that runs already, a loss.
func (p *Process) watchSockets(running bool) error {
	if p.o.Launch.Reach == nil {
		return nil
	}
	if p.o.Listening == nil {
		return errors.New("internal error: sockets are to be watched, and nobody says which there are")
	}
	path, rule, bad, err := p.lookForSockets()
	switch {
	case err == nil && bad && running:
		err = reached(path, rule)
	case err == nil && bad:
		err = container.SocketRefusal(path, rule)
	}
	if err != nil {
		return err
	}
	p.serving.Go(func() {
		ticker := time.NewTicker(socketsEvery)
		defer ticker.Stop()
		for {
			select {
			case <-p.heard:
				return
			case <-p.unwatch:
				return
			case <-ticker.C:
			}
			path, rule, bad, err := p.lookForSockets()
			if bad {
				err = reached(path, rule)
			}
			if err != nil {
				p.lose(err)
				return
			}
		}
	})
	return nil
}

// reached is the loss that a socket is.
func reached(path string, rule guard.Rule) error {
	why := fmt.Sprintf("somebody listens on a unix socket there, in what %q grants, and it can be connected to (%s)", rule.Text, container.SocketFix)
	return &errReached{errLost{path, why}}
}

// lookForSockets is the first socket that shows and isn't listed.
func (p *Process) lookForSockets() (path string, rule guard.Rule, bad bool, err error) {
	list, err := p.o.Listening()
	if err != nil {
		return "", rule, false, fmt.Errorf("cannot tell which unix sockets the host listens on: %w", err)
	}
	path, rule, bad = p.o.Launch.Reach.First(list)
	return path, rule, bad, nil
}
