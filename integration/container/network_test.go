//go:build linux

package container_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveWeb is a web server on the host's loopback.
func serveWeb(t *testing.T, h http.HandlerFunc) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h} //nolint:gosec // of a test
	go s.Serve(l)                 //nolint:errcheck // ends with the test
	t.Cleanup(func() { s.Close() })
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

const viaProxy = "unset no_proxy NO_PROXY; export http_proxy=http://127.0.0.1:3128; "

// TestNetwork: what is listed goes through the proxy, and nothing else goes
// anywhere.
func TestNetwork(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		port := serveWeb(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello "+r.Host) })
		other := serveWeb(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "not for you") })
		more := map[string]any{"network": map[string]any{"allow": []string{"127.0.0.1:" + port}}}
		r, a := p.resultOf(more, viaProxy+`
wget -q -O - http://127.0.0.1:`+port+`/ && echo
wget -q -O - http://127.0.0.1:`+other+`/ || echo refused
wget -q -O - http://nothing.example/ || echo refused
unset http_proxy
wget -q -T 2 -O - http://127.0.0.1:`+port+`/ || echo own loopback
wget -q -T 2 -O - http://192.0.2.1/ || echo no way
ip -o link | wc -l`, "--capture")
		want := "hello 127.0.0.1:" + port + "\nrefused\nrefused\nown loopback\nno way\n1\n"
		if r.Stdout == nil || r.Stdout.Data != want {
			t.Errorf("%v\n%+v", a, r.Stdout)
		}
		if len(r.Blocked) != 2 || r.Network == nil || r.Network.Down == 0 {
			t.Errorf("blocked %+v, network %+v", r.Blocked, r.Network)
		}
		if got := p.wrap(nil, "ip -o link | wc -l; env | grep -ci proxy"); got.stdout != "1\n0\n" {
			t.Errorf("with no host allowed: %v", got)
		}
	})
}

// TestHostPort: a server on the host's loopback has the same URL inside, and
// is found again after a restart.
func TestHostPort(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		port := serveWeb(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's own is one
				time.Sleep(50 * time.Millisecond)
			}
		})
		var number int
		if _, err := fmt.Sscan(port, &number); err != nil {
			t.Fatal(err)
		}
		got := p.wrap(map[string]any{"network": map[string]any{"host_ports": []int{number}}}, "wget -q -O - http://127.0.0.1:"+port+"/sse | grep -c data; env | grep -ci proxy")
		if got.stdout != "3\n0\n" {
			t.Errorf("%v", got)
		}
	})
}

// unixClient sends its second argument to the socket at its first, and prints
// the answer. The image's own netcat knows no unix sockets.
const unixClient = `#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char b[100];
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	strncpy(a.sun_path, argv[1], sizeof a.sun_path - 1);
	if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a) < 0) { perror(argv[1]); return 1; }
	if (write(s, argv[2], strlen(argv[2])) < 0) { perror("write"); return 1; }
	for (ssize_t n; (n = read(s, b, sizeof b)) > 0;) fwrite(b, 1, n, stdout);
	return 0;
}
`

// client compiles it into the workspace.
func (p *pen) client() string {
	p.t.Helper()
	return p.compile("client", unixClient)
}

func (p *pen) compile(name, source string) string {
	p.t.Helper()
	name = filepath.Join(p.workspace, name)
	cmd := exec.CommandContext(p.t.Context(), "gcc", "-O1", "-static", "-o", name, "-x", "c", "-")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return name
}

// TestToolbelt: the socket works inside at its own path, also after its server
// came back, and nothing else of its directory shows.
func TestToolbelt(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		dir := filepath.Join(p.home, "belt")
		p.mkdir(dir)
		socket := filepath.Join(dir, "toolbelt.sock")
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		serve := func(word string) net.Listener {
			os.Remove(socket)
			s, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			p.give(socket)
			go func() {
				for {
					c, err := s.Accept()
					if err != nil {
						return
					}
					b := make([]byte, 100)
					n, _ := c.Read(b)
					_, _ = fmt.Fprintf(c, "%s %s", word, b[:n])
					c.Close()
				}
			}()
			return s
		}
		first := serve("first")
		more := map[string]any{"sockets": []string{"{toolbelt}"}}
		ask := p.client() + " " + socket + " q; echo"
		r := p.start(more, ask+`; ls -A `+dir+`; touch `+dir+`/x 2>/dev/null && echo writes; while [ ! -e go ]; do sleep 0.05; done; `+ask, "--toolbelt", socket)
		p.until("the first answer", func() bool { return strings.Contains(r.stdout.String(), "toolbelt.sock") })
		first.Close()
		defer serve("second").Close()
		if err := os.WriteFile(filepath.Join(p.workspace, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 0 || r.stdout.String() != "up\nfirst q\ntoolbelt.sock\nsecond q\n" {
			t.Errorf("exit %d, %q %s", code, r.stdout.String(), r.stderr.String())
		}
	})
}

// TestSharedProgram: a client that the caller shares stands first on PATH, and
// nothing else of its directory shows. (The image's shell runs programs of its
// own before it looks, so the name is none of theirs.)
func TestSharedProgram(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		protected := filepath.Join(p.home, "daemon")
		p.mkdir(protected)
		program := filepath.Join(protected, "pf-client")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho the shared one\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.give(program)
		if got := p.wrap(nil, "pf-client; echo $PATH; touch "+program+" 2>/dev/null && echo writes; ls "+protected, "--protect", protected, "--share", program); got.code != 0 || got.stdout != "the shared one\n/.pinfold/bin:/bin\npf-client\n" {
			t.Errorf("%v", got)
		}
	})
}

// TestResume: a supervisor killed in mid-transfer and another in its place:
// what asks meanwhile waits, and is served.
func TestResume(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		started, cut := make(chan struct{}, 1), make(chan struct{})
		port := serveWeb(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/long" {
				fmt.Fprint(w, "short\n")
				return
			}
			fmt.Fprint(w, "begun\n")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's own is one
			started <- struct{}{}
			<-r.Context().Done()
			close(cut)
		})
		more := map[string]any{"network": map[string]any{"allow": []string{"127.0.0.1:" + port}}}
		script := viaProxy + `wget -q -O - http://127.0.0.1:` + port + `/long; echo cut; wget -q -O - http://127.0.0.1:` + port + `/short >>out; echo done >>out; exit 17`
		r := p.start(more, script, "--execution", "resumed")
		select {
		case <-started:
		case <-time.After(time.Minute):
			t.Fatal("no transfer")
		}
		r.killSupervisor()
		select {
		case <-cut:
		case <-time.After(time.Minute):
			t.Fatal("the transfer goes on without a supervisor")
		}
		if got := p.call("wrap", "--quiet", "--execution", "resumed", "--policy", p.policy(nil), "--", "/bin/true"); got.code != 125 || !strings.Contains(got.stderr, "container_running") {
			t.Errorf("a second one: %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := p.ended(p.command(ctx, "resume", "--record", r.record)); got.code != 17 {
			t.Errorf("%v", got)
		}
		if text, err := os.ReadFile(filepath.Join(p.workspace, "out")); err != nil || string(text) != "short\ndone\n" {
			t.Errorf("%q, %v", text, err)
		}
		if e := r.stored().Exit; e == nil || e.Code != 17 || e.Reason != "exited" {
			t.Errorf("recorded %+v", e)
		}
	})
}

// TestForeignCalls: whoever else inside calls the supervisor is not answered.
// The meeting is open until the stub has called, so the calls are made from
// here, as the host may.
func TestForeignCalls(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		done := make(chan int)
		stop := make(chan struct{})
		go func() { done <- p.pester(stop) }()
		got := p.wrap(nil, "echo ran")
		close(stop)
		if n := <-done; n == 0 && l.name == "docker" {
			t.Log("no foreign call came through before the stub's")
		}
		if got.code != 0 || got.stdout != "ran\n" {
			t.Errorf("%v", got)
		}
	})
}

// pester calls every meeting that it finds, and says nothing, or nonsense.
func (p *pen) pester(stop chan struct{}) (answered int) {
	for {
		select {
		case <-stop:
			return answered
		default:
		}
		names, err := filepath.Glob(p.state + "/containers/*/handover/s")
		for _, name := range names {
			c, e := net.Dial("unixpacket", name)
			if e != nil {
				continue
			}
			answered++
			_, err = c.Write([]byte("nonsense"))
			err = errors.Join(err, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
			if b, _ := io.ReadAll(io.LimitReader(c, 64)); len(b) > 0 {
				p.t.Errorf("a foreign call was answered with %q", b)
			}
			c.Close()
		}
		if err != nil {
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

func okHandler(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
