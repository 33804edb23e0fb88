package bwrap

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// output watches what the command says, for a run that silence is to end.
// What goes to a file shows in the file, and what goes to a terminal passes
// the relay. Of what is written elsewhere, into a pipe say, nothing can be seen
// from its other end (a pipe's times stand still since Linux 6.15), so it is
// carried: the command writes into a pipe of ours.
type output struct {
	files  []int // descriptors of regular files
	pumps  []*pump
	moved  atomic.Int64
	copies sync.WaitGroup
}

// pump carries one stream.
type pump struct {
	read  *os.File
	write int // the command's end, closed once bubblewrap has it
	dst   int
	id    [2]uint64
}

// watchOutput puts pipes of ours where the command's output can't be seen.
// Two streams that are one file share a pipe, so that their order is kept.
func (s *launcher) watchOutput(fds *[3]int) error {
	if s.launch.Limits.IdleTimeout == 0 {
		return nil
	}
	s.output = &output{}
	for i := 1; i <= 2; i++ {
		if s.term.bits&(1<<i) != 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fds[i], &st); err != nil {
			return fmt.Errorf("cannot look at the command's output: %w", err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			s.output.files = append(s.output.files, fds[i])
		default:
			p, err := s.output.pump(fds[i], [2]uint64{st.Dev, st.Ino})
			if err != nil {
				return err
			}
			fds[i] = p.write
		}
	}
	for _, p := range s.output.pumps {
		s.in.owned = append(s.in.owned, p.write)
	}
	return nil
}

func (o *output) pump(dst int, id [2]uint64) (*pump, error) {
	for _, p := range o.pumps {
		if p.id == id {
			return p, nil
		}
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot make a pipe for the command's output: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, fmt.Errorf("cannot make a pipe for the command's output: %w", err)
	}
	p := &pump{read: os.NewFile(uintptr(fds[0]), "output"), write: fds[1], dst: dst, id: id}
	o.pumps = append(o.pumps, p)
	return p, nil
}

// start carries.
func (o *output) start() {
	if o == nil {
		return
	}
	for _, p := range o.pumps {
		o.copies.Go(func() { o.carry(p) })
	}
}

// carry copies to the end. A reader that has gone takes our end along, so
// that the command gets its SIGPIPE as without us.
func (o *output) carry(p *pump) {
	defer p.read.Close()
	buf := make([]byte, chunk)
	for {
		n, err := p.read.Read(buf)
		o.moved.Add(int64(n))
		if n > 0 && writeAll(p.dst, buf[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// wait waits until everything is carried; nobody inside is left to write.
func (o *output) wait() {
	if o != nil {
		o.copies.Wait()
	}
}

// finish gives up what hasn't been carried. What waits for a reader for ever
// ends with this process.
func (o *output) finish(carried bool) {
	if !carried {
		o.abandon()
	}
}

// abandon gives up what hasn't been read.
func (o *output) abandon() {
	if o == nil {
		return
	}
	for _, p := range o.pumps {
		_ = p.read.Close() // a second time is no harm
	}
}

// said is something that differs whenever the command has said something.
type said struct {
	moved, relayed int64
	files          [2]fileState
}

type fileState struct {
	size, written int64
}

func (p *Process) said() said {
	s := said{moved: p.output.moved.Load(), relayed: p.relay.carried()}
	for i, fd := range p.output.files {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil {
			s.files[i] = fileState{st.Size, st.Mtim.Nano()}
		}
	}
	return s
}

// carried counts what passed a terminal, both ways.
func (r *relay) carried() int64 {
	if r == nil {
		return 0
	}
	return r.moved.Load()
}
