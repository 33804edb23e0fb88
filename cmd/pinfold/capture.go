package main

import (
	"errors"
	"os"
	"sync"
	"time"

	"pinfold/plan"
)

// keepBytes bounds what --capture keeps of a stream: this much of its
// beginning, and as much of its end.
const keepBytes = 512 << 10

// drainTime bounds the wait for the rest of the output once every process
// that could write is gone.
const drainTime = 5 * time.Second

// capture takes the command's standard output and error.
type capture struct {
	streams [2]*captured
	readers sync.WaitGroup
}

// captured is one stream: its pipe, and what is kept.
type captured struct {
	read, write *os.File
	head, tail  []byte
	n           int64
}

func newCapture() (*capture, error) {
	c := &capture{}
	for i := range c.streams {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, c.abandon())
		}
		c.streams[i] = &captured{read: r, write: w}
	}
	return c, nil
}

// start reads. The command has the pipes' other ends by now, and only it.
func (c *capture) start() {
	if c == nil {
		return
	}
	for _, s := range c.streams {
		s.write.Close()
		c.readers.Go(s.take)
	}
}

// take reads to the end. What is past the bounds is read and dropped, so that
// the command never waits.
func (s *captured) take() {
	defer s.read.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.read.Read(buf)
		s.keep(buf[:n])
		if err != nil {
			return
		}
	}
}

func (s *captured) keep(b []byte) {
	s.n += int64(len(b))
	room := min(len(b), keepBytes-len(s.head))
	s.head = append(s.head, b[:room]...)
	s.tail = append(s.tail, b[room:]...)
	if len(s.tail) > 2*keepBytes {
		s.tail = s.tail[:copy(s.tail, s.tail[len(s.tail)-keepBytes:])]
	}
}

func (s *captured) result() *plan.Captured {
	return plan.NewCaptured(s.head, s.tail[max(0, len(s.tail)-keepBytes):], s.n)
}

// finish waits for the rest and puts both streams into the result.
func (c *capture) finish(r *plan.Result) {
	if c == nil {
		return
	}
	for _, s := range c.streams {
		_ = s.read.SetReadDeadline(time.Now().Add(drainTime)) // fails only where the end was read
	}
	c.readers.Wait()
	r.Stdout, r.Stderr = c.streams[0].result(), c.streams[1].result()
}

// abandon is for a launch whose command never ran.
func (c *capture) abandon() error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, s := range c.streams {
		if s != nil {
			errs = append(errs, s.read.Close(), s.write.Close())
		}
	}
	return errors.Join(errs...)
}
