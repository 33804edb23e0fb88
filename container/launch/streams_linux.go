package launch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// streams are the command's three, as they are handed to the stub.
type streams struct {
	files [3]*os.File // what the stub gets
	own   []*os.File  // those made here, closed once it has them
	ends  []*os.File  // this side of pipes
	pumps sync.WaitGroup
	start []func()
	// carried are connections that have to stay outside.
	carried supervise.Carried
	// said is when something last went through a pump.
	said atomic.Int64
}

// newStreams decides what is handed on as it is. A terminal is copied, since
// no descriptor of one may get inside, and so is output that must be watched
// for silence.
func newStreams(o *Streams, watch bool) (*streams, error) {
	s := &streams{}
	s.said.Store(time.Now().UnixNano())
	for i, f := range []*os.File{o.Stdin, o.Stdout, o.Stderr} {
		if err := s.add(i, f, watch); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *streams) add(i int, f *os.File, watch bool) error {
	if f == nil {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("cannot prepare the standard streams: %w", err)
		}
		s.files[i], s.own = null, append(s.own, null)
		return nil
	}
	connection, err := supervise.CheckStream(i, int(f.Fd()))
	switch {
	case err != nil:
		return err
	case isTerminal(f) || watch && i > 0:
		return s.pipe(i, f)
	case connection:
		return s.carry(i, f)
	}
	s.files[i] = f
	return nil
}

// carry puts a socket of ours in between.
func (s *streams) carry(i int, f *os.File) error {
	inner, made, err := s.carried.Add(int(f.Fd()))
	if err != nil {
		return err
	}
	if !made { // another stream is the same one
		for k := range i {
			if s.files[k] != nil && int(s.files[k].Fd()) == inner {
				s.files[i] = s.files[k]
			}
		}
		return nil
	}
	s.files[i] = os.NewFile(uintptr(inner), f.Name())
	s.own = append(s.own, s.files[i])
	return nil
}

// pipe puts a pipe in between.
func (s *streams) pipe(i int, f *os.File) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot prepare the standard streams: %w", err)
	}
	if i == 0 {
		s.files[0], s.own, s.ends = r, append(s.own, r), append(s.ends, w)
		// It may wait for a key when all is over, so nobody waits for it.
		s.start = append(s.start, func() { go s.copy(w, f) })
		return nil
	}
	s.files[i], s.own, s.ends = w, append(s.own, w), append(s.ends, r)
	s.start = append(s.start, func() { s.pumps.Go(func() { s.copy(f, r) }) })
	return nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// copy carries one stream until it ends. A reader that has gone away ends
// nothing: the command finds out by itself.
func (s *streams) copy(to, from *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			s.said.Store(time.Now().UnixNano())
			if _, werr := to.Write(buf[:n]); werr != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	for _, end := range s.ends {
		if end == to || end == from {
			end.Close()
		}
	}
}

// began closes what the stub has by now, and starts copying.
func (s *streams) began() {
	for _, f := range s.own {
		f.Close()
	}
	s.own = nil
	for _, start := range s.start {
		start()
	}
	s.start = nil
	s.carried.Start()
}

// drainTime bounds the wait for the rest of the output once every process
// that could write is gone.
const drainTime = 5 * time.Second

// finish waits for the rest.
func (s *streams) finish() {
	for _, f := range s.ends {
		_ = f.SetReadDeadline(time.Now().Add(drainTime)) // fails only where the end was read
	}
	s.pumps.Wait()
	s.carried.Finish(supervise.DrainLimit)
	s.close()
}

func (s *streams) close() {
	for _, f := range append(s.own, s.ends...) {
		if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			continue
		}
	}
	s.own = nil
	s.carried.Finish(0)
}

// withTerm is the environment of a command that has a terminal: with the kind
// of terminal that it is (environ(7), TERM), unless something says so. It
// isn't in the plan, as the terminal isn't.
func withTerm(env []string) []string {
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		return env
	}
	return append(slices.Clip(env), "TERM="+cmp.Or(os.Getenv("TERM"), "xterm"))
}
