package bwrap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/policy"
	"pinfold/stub"
)

// mediated translates with all that this build carries, on a machine that can
// answer system calls.
func mediated(t testing.TB, in bwrap.Input) *bwrap.Launch {
	t.Helper()
	m := realMachine(t)
	if !m.Notify {
		t.Skipf("this kernel is older than Linux 5.6: %s", m.NotifyWhy)
	}
	if _, err := stub.Binary(m.Arch); errors.Is(err, stub.ErrNotBuilt) && os.Getenv("PINFOLD_INTEGRATION") != "1" {
		t.Skip("the stub is not built")
	}
	in.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	if in.Dir == "" {
		in.Dir = "/"
	}
	l, err := bwrap.TranslateInput(in, m, bwrap.Options{Umask: 0o022})
	must(t, err)
	return l
}

// answering is a server of the host's that greets whoever comes.
func answering(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "greetings\n")
			c.Close()
		}
	}()
	return l
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// tcpTry is a shell function that says what a server at HOST PORT sends.
const tcpTry = `try() { if exec 9<>"/dev/tcp/$1/$2"; then cat <&9; exec 9<&-; else echo refused; fi 2>/dev/null; }; `

func (r *running) finish(t *testing.T) string {
	t.Helper()
	exit, err := r.Wait()
	must(t, err)
	if exit.Code != 0 {
		t.Fatalf("exit %+v: %s", exit, r.err.all())
	}
	return r.out.all()
}

// The host's ports that are listed are there inside, under the same numbers,
// and no others.
func TestHostPorts(t *testing.T) {
	t.Parallel()
	listed, other := portOf(answering(t, "tcp", "127.0.0.1:0")), portOf(answering(t, "tcp", "127.0.0.1:0"))
	script := fmt.Sprintf("%s try 127.0.0.1 %d; try localhost %d; try 127.0.0.1 %d", tcpTry, listed, listed, other)
	in := bwrap.Input{Argv: []string{"bash", "-c", script}, Network: policy.Network{HostPorts: []uint16{listed}}}
	r, err := startLaunch(t, t.Context(), mediated(t, in), bwrap.StartOptions{}, "")
	must(t, err)
	if got := r.finish(t); got != "greetings\ngreetings\nrefused\n" {
		t.Errorf("got %q", got)
	}
}

const pythonServer = `
import signal, socket, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
time.sleep(float(sys.argv[3]))
for restart in range(2):
    s = socket.socket(socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((sys.argv[1], int(sys.argv[2]))); s.listen()
    print("ready", flush=True)
    for _ in range(int(sys.argv[4])):
        c, _ = s.accept(); c.sendall(b"inside\n"); c.close()
    s.close(); print("closed", flush=True)
    if restart == 0: signal.sigwait({signal.SIGUSR1})
`

// A server inside is reached from the host's loopback, whichever its family,
// whenever it starts, and once it has started again.
func TestExpose(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			outside := quietPort(t)
			in := bwrap.Input{
				Argv:    []string{"python3", "-c", pythonServer, address, "8080", "0.3", "20"},
				Network: policy.Network{Expose: []policy.Expose{{Outside: outside, Inside: 8080, Text: "x"}}},
			}
			r, err := startLaunch(t, t.Context(), mediated(t, in), bwrap.StartOptions{}, "")
			must(t, err)
			at := "127.0.0.1:" + strconv.Itoa(int(outside))
			if got := hear(at); got == "inside\n" {
				t.Errorf("nobody listens yet, and %q came", got)
			}
			r.out.until(t, "ready\n")
			hearAll(t, at, 20)
			r.out.until(t, "closed\n")
			if got := hear(at); got == "inside\n" {
				t.Errorf("nobody listens any more, and %q came", got)
			}
			must(t, r.Signal(syscall.SIGUSR1))
			r.out.until(t, "ready\n")
			hearAll(t, at, 20)
			r.finish(t)
			untilRefused(t, at)
		})
	}
}

// untilRefused waits for a port to be closed: a child that another test has just
// forked has a copy of each listener until it executes something.
func untilRefused(t *testing.T, at string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", at)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(end) {
			t.Error("the port is still open")
			return
		}
	}
}

func hearAll(t *testing.T, at string, times int) {
	t.Helper()
	for range times {
		if got := hear(at); got != "inside\n" {
			t.Errorf("got %q", got)
		}
	}
}

// quietPort is a free port that no other test is given by the kernel: those
// come from ip_local_port_range, which begins above it, ip(7).
func quietPort(t *testing.T) uint16 {
	t.Helper()
	for range 100 {
		port := uint16(20000 + rand.IntN(10000))
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func hear(address string) string {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	b, _ := io.ReadAll(c)
	return string(b)
}

// TestExposeTakenPort: also where the IPv6 loopback alone is another's.
func TestExposeTakenPort(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		if l, err := net.Listen("tcp", address); errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			continue // this machine has no IPv6
		} else if err == nil {
			l.Close()
		}
		taken := portOf(answering(t, "tcp", address))
		in := bwrap.Input{Argv: []string{"true"}, Network: policy.Network{Expose: []policy.Expose{{Outside: taken, Inside: 1, Text: "x"}}}}
		var refusal *policy.Refusal
		if _, err := startLaunch(t, t.Context(), mediated(t, in), bwrap.StartOptions{}, ""); !errors.As(err, &refusal) || refusal.Code != "expose_failed" {
			t.Errorf("%s taken: got %v", address, err)
		}
	}
}

const pythonSockets = `
import os, socket, sys
def try_(path):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(path); return s.recv(64).decode().strip() or "connected"
    except OSError as e: return os.strerror(e.errno)
own = socket.socket(socket.AF_UNIX); own.bind("/tmp/own"); own.listen()
if os.fork() == 0:
    c, _ = own.accept(); c.send(b"own"); os._exit(0)
for p in ["/tmp/own"] + sys.argv[1:]: print(try_(p))
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
except OSError as e: print(os.strerror(e.errno))
`

// The listed socket is reached, and one's own; the others of the host are
// there, and closed.
func TestSocketsByPath(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	listed, other := filepath.Join(dir, "listed"), filepath.Join(dir, "other")
	answering(t, "unix", listed)
	answering(t, "unix", other)
	info, err := os.Lstat(listed)
	must(t, err)
	in := bwrap.Input{
		Argv:    []string{"python3", "-c", pythonSockets, listed, other},
		Sockets: []guard.Socket{{Path: listed, ID: idOf(info), Rule: guard.Rule{Text: "listed"}}},
	}
	events := &sink{}
	r, err := startLaunch(t, t.Context(), mediated(t, in), bwrap.StartOptions{Events: events, Run: "r"}, "")
	must(t, err)
	if got := r.finish(t); got != "own\ngreetings\nPermission denied\nOperation not permitted\n" {
		t.Errorf("got %q", got)
	}
	if list := events.all(); len(list) != 1 || list[0].Kind != event.Socket || list[0].Hint != other || list[0].PID == 0 {
		t.Errorf("events %+v", list)
	}
}

// sink keeps events.
type sink struct {
	mu   sync.Mutex
	list []event.Event
}

func (s *sink) Emit(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, e)
}

func (s *sink) all() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]event.Event(nil), s.list...)
}

// oneName is a name service that knows one name.
type oneName struct{}

func (oneName) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "api.example." {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("203.0.113.9")}, nil
}

// A program that knows of no proxy reaches what is allowed by its name, and is
// refused the rest at once.
func TestTransparentRun(t *testing.T) {
	t.Parallel()
	server := answering(t, "tcp", "127.0.0.1:0").Addr().String()
	allowed, err := policy.ParseHostPattern("api.example:80")
	must(t, err)
	literal, err := policy.ParseHostPattern("[2001:db8::9]:80")
	must(t, err)
	network := policy.Network{Allow: []policy.HostPattern{allowed, literal}, Mode: policy.ModeTransparent}
	events := &sink{}
	proxy := func() (bwrap.Egress, error) {
		d := egress.NewDecider(network)
		dialer := &egress.Dialer{Decider: d, Resolver: oneName{}, Connect: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.String() != "203.0.113.9:80" && to.String() != "[2001:db8::9]:80" {
				return nil, fmt.Errorf("dialled %s", to)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", server)
		}}
		return egress.NewTransparent(&egress.Server{Decider: d, Dialer: dialer, Events: events, AllFlows: true}), nil
	}
	script := tcpTry + "env | grep -ci proxy; try api.example 80; try api.example 81; try other.example 80; try 203.0.113.9 80; try 198.18.0.1 80; try 198.18.0.99 80; try ::ffff:198.18.0.1 80; try 2001:db8::9 80; try 2001:db8::8 80"
	l := mediated(t, bwrap.Input{Argv: []string{"bash", "-c", script}, Network: network})
	began := time.Now()
	r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{Egress: proxy, Events: events}, "")
	must(t, err)
	if got := r.finish(t); got != "0\ngreetings\nrefused\nrefused\nrefused\ngreetings\nrefused\ngreetings\ngreetings\nrefused\n" {
		t.Errorf("got %q", got)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v: a refusal was waited for", d)
	}
	var lines []string
	for _, e := range events.all() {
		if e.PID == 0 && e.Via == "transparent" {
			t.Errorf("nobody's flow: %+v", e)
		}
		lines = append(lines, fmt.Sprint(e.Action, " ", e.Target, " ", e.Via))
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"allowed api.example:80 transparent", "denied api.example:81 transparent", "denied other.example dns",
		"denied 203.0.113.9:80 transparent", "denied 198.18.0.99:80 transparent",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no event %q in\n%s", want, text)
		}
	}
}
