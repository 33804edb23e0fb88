package bwrap

import (
	"sync"
)

// Terminal stands between the operator's terminal and one made inside, for a
// launch of another tier, as a launch of this one has it for itself.
type Terminal struct {
	t     terminals
	relay *relay
	jobs  sync.Mutex // one stop or first use of the terminal at a time
}

// FindTerminal looks at the command's standard streams. Nil stands for none
// among them being a terminal.
func FindTerminal(s Streams) (*Terminal, error) {
	fds := [3]int{-1, -1, -1}
	for i, f := range s.files() {
		if f == nil {
			continue
		}
		var err error
		if fds[i], err = rawFD(f); err != nil {
			return nil, err
		}
	}
	t := findTerminals(fds)
	if t.bits == 0 {
		return nil, nil //nolint:nilnil // documented: there is none
	}
	return &Terminal{t: t}, nil
}

// Bits are those of the stub's Setup.TTY.
func (t *Terminal) Bits() byte { return t.t.bits }

// Size is the window's, or zero where the terminal has none.
func (t *Terminal) Size() (rows, cols uint16) { return t.t.size() }

// Take takes the master of the terminal made inside. The descriptor is this
// one's from here on, whatever comes.
func (t *Terminal) Take(fd int) error {
	master, err := prepareMaster(fd, t.t)
	if err != nil {
		closeFD(&fd)
		return err
	}
	if t.relay, err = newRelay(t.t, master); err != nil {
		master.Close()
	}
	return err
}

// Start carries what the command writes.
func (t *Terminal) Start() { t.relay.start() }

// Open carries what is typed, once the command is in front of its terminal.
func (t *Terminal) Open() { t.relay.open() }

// Resize passes the window's size on.
func (t *Terminal) Resize() { t.relay.resize() }

// Stopped is for a command that was stopped: the operator's terminal is given
// back and this process stops with the rest of its group. When it is continued,
// so is the command, by resume.
func (t *Terminal) Stopped(resume func()) {
	t.jobs.Lock()
	defer t.jobs.Unlock()
	t.relay.settle()
	t.relay.leave()
	onThread(stopGroup)
	t.relay.comeBack(resume)
}

// Continued is for a supervisor that somebody else had stopped.
func (t *Terminal) Continued(resume func()) {
	t.jobs.Lock()
	defer t.jobs.Unlock()
	t.relay.comeBack(resume)
}

// Wanted is for a command that uses its terminal for the first time.
func (t *Terminal) Wanted(resume func()) {
	t.jobs.Lock()
	defer t.jobs.Unlock()
	t.relay.want()
	t.relay.comeBack(resume)
}

// Finish carries the rest and gives the operator's terminal back. started:
// the command ran, and has ended.
func (t *Terminal) Finish(started bool) {
	if t.relay != nil {
		t.relay.finish(started)
	}
}
