package launch

import (
	"context"
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
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	path, rule, bad, err := p.lookForSockets(ctx, true)
	took := time.Since(began)
	switch {
	case err == nil && bad && running:
		err = reached(path, rule)
	case err == nil && bad:
		err = container.SocketRefusal(path, rule)
	}
	if err != nil {
		cancel()
		return err
	}
	p.serving.Go(func() {
		select {
		case <-p.heard:
		case <-p.unwatch:
		}
		cancel()
	})
	p.serving.Go(func() { p.keepLooking(ctx, took) })
	return nil
}

// searchShare is how much longer than a search nobody searches: twenty times
// makes it a twentieth of one core, however large the grant is.
const searchShare = 20

// keepLooking looks until ctx ends. took is how long a search takes.
func (p *Process) keepLooking(ctx context.Context, took time.Duration) {
	ticker := time.NewTicker(socketsEvery)
	defer ticker.Stop()
	for searched := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		search := began.Sub(searched) >= took*searchShare
		path, rule, bad, err := p.lookForSockets(ctx, search)
		if search {
			searched = time.Now()
			took = searched.Sub(began)
		}
		switch {
		case ctx.Err() != nil:
			return
		case bad:
			err = reached(path, rule)
		}
		if err != nil {
			p.lose(err)
			return
		}
	}
}

// reached is the loss that a socket is.
func reached(path string, rule guard.Rule) error {
	why := fmt.Sprintf("somebody listens on a unix socket there, in what %q grants, and it can be connected to (%s)", rule.Text, container.SocketFix)
	return &errReached{errLost{path, why}}
}

// lookForSockets is the first socket that shows and isn't listed.
func (p *Process) lookForSockets(ctx context.Context, search bool) (path string, rule guard.Rule, bad bool, err error) {
	list, err := p.o.Listening(ctx, p.o.Launch.Reach, search)
	if err != nil {
		return "", rule, false, fmt.Errorf("cannot tell which unix sockets the host listens on: %w", err)
	}
	path, rule, bad = p.o.Launch.Reach.First(list)
	return path, rule, bad, nil
}
