package notify_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/notify"
)

func TestPathsAndNames(t *testing.T) {
	t.Parallel()
	host := newSandbox(t).dir
	listed, other := serve(t, filepath.Join(host, "listed")), serve(t, filepath.Join(host, "other"))
	abstract := serve(t, "@pinfold-notify-"+strconv.Itoa(os.Getpid()))
	link := filepath.Join(host, "link")
	must(t, os.Symlink("other", link))
	s := newSandbox(t)
	s.o.Sockets = []notify.Socket{listed.listed(t)}
	s.o.AllFlows = true
	spelled := host + "/./listed"
	relative, err := filepath.Rel(s.dir, other.path)
	must(t, err)
	got := results(s.run(t, "tour", listed.path, spelled, other.path, relative, link, "/proc/self/root"+other.path, abstract.path))
	for name, want := range map[string]string{
		"relative": "connected", "absolute": "connected", "dots": "connected", "link": "connected", "abstract": "connected",
		"by directory": "connected", "by descriptor": "connected", "by dev": "connected", "by root": "connected", "by cwd": "connected",
		"stale": "ECONNREFUSED", "missing": "ENOENT", "no socket": "ECONNREFUSED", "no directory": "ENOTDIR",
		"other abstract": "ECONNREFUSED", "out by dots": "EXDEV",
		listed.path: "connected", spelled: "connected",
		other.path: "EACCES", relative: "EACCES", link: "EACCES", "/proc/self/root" + other.path: "EACCES", abstract.path: "ECONNREFUSED",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, wanted %q", name, got[name], want)
		}
	}
	eventually(t, "both connections were accepted", func() bool { return listed.count() >= 2 })
	if listed.count() != 2 || other.count() != 0 || abstract.count() != 0 {
		t.Errorf("%d, %d and %d connections, wanted 2, 0 and 0", listed.count(), other.count(), abstract.count())
	}
	checkEvents(t, s.events.events(), s.cmd.Process.Pid, listed.path, other.path)
}

func checkEvents(t *testing.T, list []event.Event, pid int, listed, other string) {
	t.Helper()
	var allowed, denied []string
	for _, e := range list {
		if e.Kind != event.Socket || e.PID != pid || filepath.Base(e.Program) != filepath.Base(os.Args[0]) || e.Run != "run" {
			t.Errorf("an event without a kind or a process: %+v", e)
		}
		if e.Action == event.Allowed {
			allowed = append(allowed, e.Target)
			continue
		}
		denied = append(denied, e.Hint)
	}
	if !slices.Equal(allowed, []string{listed, listed}) || len(denied) != 4 || denied[0] != other || denied[1] != other {
		t.Errorf("allowed %q, denied %q", allowed, denied)
	}
}

// Nothing is sent by a name: the kernel takes none on these sockets.
func TestNamesInMessages(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	svc := serve(t, filepath.Join(newSandbox(t).dir, "svc"))
	got := results(s.run(t, "named", svc.path))
	for name, want := range map[string]string{
		"sendmsg 1": "ENOTSUP", "sendto 1": "ENOTSUP", "pair 1": "EACCES",
		"sendmsg 5": "ENOTCONN", "sendto 5": "ENOTCONN", "pair 5": "EACCES", "fast open": "EPERM",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, wanted %q", name, got[name], want)
		}
	}
	if svc.count() != 0 {
		t.Errorf("%d connections", svc.count())
	}
}

// A socket that was made outside lives in the host's network namespace, and
// would reach what that one holds.
func TestSocketFromOutside(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	svc := serve(t, filepath.Join(newSandbox(t).dir, "svc"))
	abstract := serve(t, "@pinfold-passed-"+strconv.Itoa(os.Getpid()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	for _, kind := range [][2]int{{unix.AF_UNIX, unix.SOCK_STREAM}, {unix.AF_INET, unix.SOCK_STREAM}, {unix.AF_UNIX, unix.SOCK_DGRAM}} {
		fd, err := unix.Socket(kind[0], kind[1]|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		f := os.NewFile(uintptr(fd), "outside")
		defer f.Close()
		s.extra = append(s.extra, f)
	}
	s.o.Sockets = []notify.Socket{svc.listed(t)} // not even a listed one
	got := results(s.run(t, "passed", svc.path, abstract.path, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)))
	for name, outcome := range got {
		if outcome != "EACCES" {
			t.Errorf("%s: %s", name, outcome)
		}
	}
	if len(got) != 4 || svc.count() != 0 || abstract.count() != 0 {
		t.Errorf("%d outcomes, %d and %d connections", len(got), svc.count(), abstract.count())
	}
}

// raceTime is how long a hostile racer is given; PINFOLD_RACE lengthens it.
func raceTime() string {
	if d := os.Getenv("PINFOLD_RACE"); d != "" {
		return d
	}
	return "2s"
}

func TestRacers(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"race", "swap"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			forbidden := serve(t, filepath.Join(newSandbox(t).dir, "f"))
			out := newSandbox(t).run(t, script, forbidden.path, raceTime())
			t.Log(out)
			if forbidden.count() != 0 {
				t.Errorf("%d connections reached what isn't listed: %s", forbidden.count(), out)
			}
			for _, both := range []string{"connected", "EACCES"} {
				if !strings.Contains(out, both) {
					t.Errorf("the race was none: %s", out)
				}
			}
		})
	}
}

func TestFullBacklog(t *testing.T) {
	t.Parallel()
	got := results(newSandbox(t).run(t, "backlog"))
	if got["non-blocking"] != "EAGAIN" || got["all"] != "connected" {
		t.Error(got)
	}
}

func TestUndumpable(t *testing.T) {
	t.Parallel()
	if got := results(newSandbox(t).run(t, "undumpable")); got["own"] != "connected" {
		t.Error(got)
	}
}

func TestConcurrentTCP(t *testing.T) {
	t.Parallel()
	if got := results(newSandbox(t).run(t, "tcp", "480")); got["all"] != "connected" {
		t.Error(got)
	}
}

// A restarted service is the one that was listed, where the command can't
// have put it there. Elsewhere it isn't, not even by the number of its inode,
// which file systems give to the next file.
func TestRestartedService(t *testing.T) {
	t.Parallel()
	for fixed, want := range map[bool]string{true: "connected", false: "EACCES"} {
		path := filepath.Join(newSandbox(t).dir, "svc")
		first := serve(t, path)
		entry := first.listed(t)
		entry.Fixed = fixed
		s := newSandbox(t)
		s.o.Sockets = []notify.Socket{entry}
		var second *service
		s.ready = func() {
			first.l.Close() // which removes it
			<-first.done
			second = serve(t, path)
		}
		if got := results(s.run(t, "tour", path)); got[path] != want {
			t.Errorf("fixed %v: %q, wanted %q", fixed, got[path], want)
		}
		eventually(t, "the connection was accepted", func() bool { return !fixed || second.count() > 0 })
		if got := second.count() == 1; got != fixed {
			t.Errorf("fixed %v: reached %v", fixed, got)
		}
	}
}

// A socket that is gone when the engine starts is nobody's.
func TestVanishedService(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newSandbox(t).dir, "svc")
	first := serve(t, path)
	entry := first.listed(t)
	first.l.Close()
	<-first.done
	s := newSandbox(t)
	s.o.Sockets = []notify.Socket{entry}
	second := (*service)(nil)
	s.ready = func() { second = serve(t, path) }
	if got := results(s.run(t, "tour", path)); got[path] != "EACCES" || second.count() != 0 {
		t.Errorf("%q, %d connections", got[path], second.count())
	}
}

// What is judged is what is connected to, however the address changes.
func TestAddressRacer(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.o.Inet = func(_ context.Context, f notify.Flow) notify.Verdict {
		if f.To.Port() == 82 {
			return notify.Verdict{Refused: syscall.EACCES}
		}
		return notify.Verdict{}
	}
	out := s.run(t, "address", "", raceTime())
	t.Log(out)
	if got := results(out); got["forbidden"] != "never reached" {
		t.Errorf("the forbidden port was reached: %s", out)
	}
	for _, both := range []string{"connected", "EACCES"} {
		if !strings.Contains(out, both) {
			t.Errorf("the race was none: %s", out)
		}
	}
}

// The caller's connections are made to where the verdict says, and it learns
// of a refusal at once.
func TestInetVerdicts(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	froms := make(chan netip.AddrPort, 8)
	var seen []string
	var lock sync.Mutex // calls are answered side by side
	s.o.Inet = func(_ context.Context, f notify.Flow) notify.Verdict {
		pid, _ := f.Who()
		lock.Lock()
		seen = append(seen, fmt.Sprint(f.To, f.Stream, pid != 0))
		lock.Unlock()
		switch f.To.Port() {
		case 81:
			return notify.Verdict{Refused: syscall.EACCES}
		case 82:
			return notify.Verdict{To: netip.MustParseAddrPort("127.0.0.1:9"), Started: func(a netip.AddrPort) { froms <- a }}
		}
		return notify.Verdict{}
	}
	got := results(s.run(t, "dial", "tcp", "198.18.0.1:81", "tcp", "198.18.0.1:82", "tcp4", "198.18.0.1:83", "tcp", "[2001:db8::1]:83", "udp", "198.18.0.1:83"))
	for name, want := range map[string]string{
		"tcp 198.18.0.1:81": "EACCES", "tcp 198.18.0.1:82": "ECONNREFUSED", "tcp4 198.18.0.1:83": "ENETUNREACH",
		"tcp [2001:db8::1]:83": "ENETUNREACH", "udp 198.18.0.1:83": "ENETUNREACH",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, wanted %q", name, got[name], want)
		}
	}
	if !slices.Contains(seen, "198.18.0.1:82 true true") || !slices.Contains(seen, "198.18.0.1:83 false true") {
		t.Errorf("seen %q", seen)
	}
}

// Nothing is left of callers that were killed.
func TestStorm(t *testing.T) {
	s := newSandbox(t)
	children := 60
	if testing.Short() {
		children = 10
	}
	newSandbox(t).run(t, "undumpable") // the runtime opens what it needs for itself
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	s.run(t, "storm", strconv.Itoa(children), "")
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	eventually(t, "the goroutines ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
