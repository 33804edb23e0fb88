package egress

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"pinfold/event"
)

// Limits bound what one run can make the supervisor hold; zero values mean
// the defaults.
type Limits struct {
	// Conns is how many clients are served at once (1,024). One more is
	// answered 503.
	Conns int
	// Head is how long a client may take to send a request's head, or the
	// handshake of SOCKS (60 s).
	Head time.Duration
	// KeepAlive is how long a connection may lie idle between two requests
	// (2 min).
	KeepAlive time.Duration
	// Idle ends a tunnel, a body or a wait for an answer on which nothing
	// moves (4 h: an ssh session or a stream of events may be quiet for
	// long; a peer that is gone is found by TCP keep-alive).
	Idle time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Conns == 0 {
		l.Conns = 1024
	}
	if l.Head == 0 {
		l.Head = time.Minute
	}
	if l.KeepAlive == 0 {
		l.KeepAlive = 2 * time.Minute
	}
	if l.Idle == 0 {
		l.Idle = 4 * time.Hour
	}
	return l
}

// Server serves HTTP proxy requests, CONNECT and SOCKS5 on one port: the
// first byte of a connection says which. The fields are set before the first
// Serve and not changed after.
type Server struct {
	Decider *Decider
	Dialer  *Dialer
	// Events takes what was denied, and every flow with AllFlows; nil means
	// nobody listens.
	Events   event.Sink
	AllFlows bool
	Limits   Limits
	// Peer says which process a client connection belongs to, where that can
	// be known; nil where it can't.
	Peer func(net.Conn) (pid int, program string)

	// Password is asked of every client; nil where whoever can connect is
	// inside.
	Password *Password

	once        sync.Once
	transparent atomic.Pointer[Transparent]
	outflow     Outflow
	limits      Limits
	mu          sync.Mutex
	closed      bool
	listeners   map[net.Listener]struct{}
	conns       map[net.Conn]struct{}
	wg          sync.WaitGroup
}

// ErrClosed is what Serve returns after Close, or once its context has ended.
// Like any closed listener's error it matches net.ErrClosed.
var ErrClosed = fmt.Errorf("the proxy is closed: %w", net.ErrClosed)

func (s *Server) init() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = s.Limits.withDefaults()
	s.listeners = map[net.Listener]struct{}{}
	s.conns = map[net.Conn]struct{}{}
}

// Serve accepts on ln, which it closes, until ctx ends or the server is
// closed; it returns once everything it started has ended. The listener may
// live in another network namespace: nothing is made of its address.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	s.once.Do(s.init)
	if !s.track(ln) {
		ln.Close()
		return ErrClosed
	}
	swift(ln)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	err := s.acceptAll(ctx, ln)
	cancel()
	s.wg.Wait()
	return err
}

// acceptAll hands each connection to its own goroutine. Out of descriptors
// (EMFILE) isn't the end: those who are connected go on, and the others wait
// in the kernel's queue until one leaves.
func (s *Server) acceptAll(ctx context.Context, ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err == nil {
			s.start(ctx, conn)
			continue
		}
		if s.isClosed() || ctx.Err() != nil {
			return ErrClosed
		}
		if !isShortage(err) {
			s.Close()
			return fmt.Errorf("cannot accept connections: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // nothing tells when a descriptor is free
		}
	}
}

func (s *Server) start(ctx context.Context, conn net.Conn) {
	switch s.add(conn) {
	case added:
		go s.serve(ctx, conn)
	case full:
		s.emitOverload()
		refuseOverload(conn)
	case closing:
		conn.Close()
	}
}

// peerOf says whose connection it is, where that can be known.
func (s *Server) peerOf(conn net.Conn) (pid int, program string) {
	if s.Peer != nil {
		return s.Peer(conn)
	}
	if t := s.transparent.Load(); t != nil {
		return t.peer(conn)
	}
	return 0, ""
}

// serve is one client connection from its first byte to its end.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	defer s.wg.Done()
	defer s.remove(conn)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client{s: s, ctx: ctx, conn: conn, br: bufio.NewReaderSize(conn, smallHead)}
	c.busy()
	defer c.free()
	conn.SetReadDeadline(time.Now().Add(s.limits.Head))
	first, err := c.br.Peek(1)
	// Not before: whoever made the connection for the client tells of it
	// before the client can send.
	c.pid, c.program = s.peerOf(conn)
	switch {
	case err != nil:
	case first[0] == socks5Version:
		c.serveSOCKS()
	case first[0] == socks4Version:
		c.refuseSOCKS4()
	default:
		c.serveHTTP()
	}
}

// Close ends the listeners and every connection. Serve returns soon after.
func (s *Server) Close() error {
	s.once.Do(s.init)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for ln := range s.listeners {
		ln.Close()
	}
	for conn := range s.conns {
		conn.Close()
	}
	return nil
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[ln] = struct{}{}
	}
	return !s.closed
}

type admission int

const (
	added admission = iota
	full
	closing
)

func (s *Server) add(conn net.Conn) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return closing
	case len(s.conns) >= s.limits.Conns:
		return full
	}
	s.conns[conn] = struct{}{}
	s.wg.Add(1)
	return added
}

func (s *Server) remove(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// Active is the number of clients connected now.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// refuseOverload answers in the one protocol in which a server may speak
// first without harm, and doesn't wait.
func refuseOverload(conn net.Conn) {
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	conn.Write(overload)
	conn.Close()
}
