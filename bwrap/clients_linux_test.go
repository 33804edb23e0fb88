package bwrap_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/guard"
	"pinfold/policy"
)

// clientLab is a network of one host, api.example, whose ports lead to real
// servers on the test's loopback.
type clientLab struct {
	dir    string
	routes map[uint16]string
	events *sink
}

func newClientLab(t *testing.T) *clientLab {
	t.Helper()
	l := &clientLab{dir: lab(t), routes: map[uint16]string{}, events: &sink{}}
	handler := http.NewServeMux()
	handler.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello over %s", r.Proto)
	})
	handler.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	repo := l.repository(t)
	handler.Handle("/repo.git/", http.StripPrefix("/repo.git/", http.FileServer(http.Dir(repo))))
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = quietLog()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	// The test server's certificate is for example.com.
	file(t, filepath.Join(l.dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	file(t, filepath.Join(l.dir, "go-client"), string(exe))
	must(t, os.Chmod(filepath.Join(l.dir, "go-client"), 0o755))
	l.routes[80] = plain.Listener.Addr().String()
	l.routes[443] = secure.Listener.Addr().String()
	l.routes[22] = l.sshd(t)
	return l
}

// repository is a bare one that plain files can serve.
func (l *clientLab) repository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(l.dir, "src")
	script := `set -e; git init -q src; cd src; git config user.name x; git config user.email x@x
		echo content > file; git add file; git commit -qm one; cd ..; git clone -q --bare src repo.git; cd repo.git; git update-server-info`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = l.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot make %q: %v: %s", dir, err, out)
	}
	return filepath.Join(l.dir, "repo.git")
}

// sshd serves real ssh handshakes, each by a process of its own.
func (l *clientLab) sshd(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sshd")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755)) // nobody must get there, see handshake
	key := filepath.Join(dir, "hostkey")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a key: %v: %s", err, out)
	}
	if os.Getuid() == 0 {
		must(t, os.Chown(key, nobody, nobody)) // who runs it, see handshake
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go l.handshake(c.(*net.TCPConn), key)
		}
	}()
	return ln.Addr().String()
}

const nobody = 65534

// handshake serves one connection. Root's sshd would want /run/sshd, which is
// the machine's to make.
func (l *clientLab) handshake(c *net.TCPConn, key string) {
	f, err := c.File()
	c.Close()
	if err != nil {
		return
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/sbin/sshd", "-i", "-e", "-f", "/dev/null", "-h", key, "-o", "UsePAM=no", "-o", "PidFile=none")
	cmd.Stdin, cmd.Stdout = f, f
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	_ = cmd.Run() // ends when the client has what it wants
}

func (l *clientLab) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	at := l.routes[to.Port()]
	if at == "" || to.Addr() != netip.MustParseAddr("203.0.113.9") {
		return nil, fmt.Errorf("dialled %s", to)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", at)
}

// run runs a script inside, with no proxy and no variable that names one.
func (l *clientLab) run(t *testing.T, mode policy.NetworkMode, script string) said {
	t.Helper()
	n := policy.Network{Mode: mode}
	for _, text := range []string{"api.example", "example.com"} {
		p, err := policy.ParseHostPattern(text)
		must(t, err)
		n.Allow = append(n.Allow, p)
	}
	launch := mediated(t, bwrap.Input{
		Argv: []string{"bash", "-c", script}, Dir: "/tmp", Network: n,
		Entries: []guard.Entry{entry(t, l.dir, guard.ReadOnly)},
	})
	launch.Setup.Env = append(launch.Setup.Env, "HOME=/tmp", "USER="+userName(t), "LAB="+l.dir, "CA="+filepath.Join(l.dir, "ca.pem"), "NODE_EXTRA_CA_CERTS="+filepath.Join(l.dir, "ca.pem"))
	r, err := startLaunch(t, t.Context(), launch, bwrap.StartOptions{Events: l.events, Egress: func() (bwrap.Egress, error) {
		d := egress.NewDecider(n)
		s := &egress.Server{
			Decider: d, Events: l.events, AllFlows: true,
			Dialer: &egress.Dialer{Decider: d, Resolver: anyName{}, Connect: l.connect},
		}
		if !launch.Transparent {
			return s, nil
		}
		return egress.NewTransparent(s), nil
	}}, "")
	must(t, err)
	return r.wait(t)
}

// anyName has one address for every name.
type anyName struct{}

func (anyName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("203.0.113.9")}, nil
}

// clients speak HTTP on port 80, or what else a program brings along.
func clients() map[string]program {
	const python = `python3 -c 'import urllib.request as u,sys; print(u.urlopen("http://%s/hello", timeout=5).read().decode())'`
	const asyncio = `python3 -c '
import asyncio
async def main():
    r, w = await asyncio.open_connection("%s", 80)
    w.write(b"GET /hello HTTP/1.0\r\n\r\n"); print((await r.read()).decode().split("\r\n\r\n")[1])
asyncio.run(main())'`
	const fetch = `node -e 'fetch("http://%s/hello").then(r=>r.text()).then(t=>console.log(t),e=>{console.log(String(e.cause||e));process.exit(1)})'`
	const nodeNet = `node -e 'const s=require("net").connect(80,"%s",()=>s.write("GET /hello HTTP/1.0\r\n\r\n"));s.on("data",d=>console.log(String(d).split("\r\n\r\n")[1]));s.on("error",e=>{console.log(e.code);process.exit(1)})'`
	at := func(format string) (string, string) {
		return fmt.Sprintf(format, "api.example"), fmt.Sprintf(format, "other.example")
	}
	list := map[string]program{}
	add := func(name, needs, format, want string, proxied bool) {
		allowed, denied := at(format)
		list[name] = program{"command -v " + needs, allowed, want, denied, proxied}
	}
	add("curl", "curl", "curl -sSf http://%s/hello", "hello over HTTP/1.1", true)
	add("curl v4", "curl", "curl -4 -sSf http://%s/hello", "hello over HTTP/1.1", true)
	add("curl upload", "curl", "head -c 3000000 /dev/zero | curl -sSf --data-binary @- http://%s/upload", "3000000", true)
	add("wget", "wget", "wget -q -O - http://%s/hello", "hello over HTTP/1.1", true)
	add("urllib", "python3", python, "hello over HTTP/1.1", true)
	add("asyncio", "python3", asyncio, "hello over HTTP/1.0", false)
	add("fetch", "node", fetch, "hello over HTTP/1.1", false)
	add("node net", "node", nodeNet, "hello over HTTP/1.0", false)
	add("go", "sh", "GODEBUG=netdns=go GOCLIENT=http://%s/hello $LAB/go-client -test.run TestGoClient", "hello over HTTP/1.1", true)
	add("go, C's resolver", "sh", "GODEBUG=netdns=cgo GOCLIENT=http://%s/hello $LAB/go-client -test.run TestGoClient", "hello over HTTP/1.1", false)
	add("git", "git", "rm -rf /tmp/clone; git clone -q http://%s/repo.git /tmp/clone && cat /tmp/clone/file", "content", true)
	add("ssh", "ssh-keyscan", "ssh-keyscan -T 5 -t ed25519 %s 2>/dev/null | grep -o ssh-ed25519", "ssh-ed25519", false)
	list["https"] = program{
		"command -v curl", `curl -sSf --http1.1 --cacert "$CA" https://example.com/hello`, "hello over HTTP/1.1",
		`curl -sSf --cacert "$CA" https://other.example/hello`, true,
	}
	list["http2"] = program{
		"command -v curl", `curl -sSf --http2 --cacert "$CA" https://example.com/hello`, "hello over HTTP/2.0",
		`curl -sSf --http2 --cacert "$CA" --connect-to other.example:443:api.example:443 https://other.example/hello`, true,
	}
	return list
}

// TestGoClient is a client: this binary, run inside.
func TestGoClient(t *testing.T) {
	url := os.Getenv("GOCLIENT")
	if url == "" {
		return
	}
	resp, err := http.Get(url) //nolint:noctx // the test that runs it bounds it
	if err != nil || resp.StatusCode != http.StatusOK {
		os.Exit(1)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(os.Stdout, resp.Body)
	os.Exit(0)
}

// Everyday programs reach an allowed host by its name with no proxy variable
// in sight, and fail at once elsewhere; those that know proxies do the same
// with one.
func TestClients(t *testing.T) {
	l := newClientLab(t)
	for name, p := range clients() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.attempt(t, p)
		})
	}
}
