package bwrap_test

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 has it so
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// programLab is api.example and example.com with all that programs talk to.
type programLab struct{ *clientLab }

func newProgramLab(t *testing.T) *programLab {
	t.Helper()
	l := &programLab{&clientLab{dir: lab(t), routes: map[uint16]string{}, events: &sink{}}}
	l.clients(t)
	web := l.web(t)
	plain := httptest.NewServer(web)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(web)
	secure.Config.ErrorLog = quietLog() // of clients that are cut off
	secure.StartTLS()
	t.Cleanup(secure.Close)
	file(t, filepath.Join(l.dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	l.routes[8080] = plain.Listener.Addr().String()
	l.routes[443] = secure.Listener.Addr().String()
	l.routes[50051] = l.h2c(t)
	l.routes[2222] = l.login(t)
	l.routes[5432] = startPostgres(t)
	l.routes[6379] = startRedis(t)
	return l
}

func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// clients are the programs that are the test's own.
func (l *programLab) clients(t *testing.T) {
	t.Helper()
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	file(t, filepath.Join(l.dir, "go-client"), string(exe))
	must(t, os.Chmod(filepath.Join(l.dir, "go-client"), 0o755))
	file(t, filepath.Join(l.dir, "ws.py"), `import asyncio, sys, websockets
async def main():
    async with websockets.connect(sys.argv[1], open_timeout=5) as s:
        for m in "hello", "x" * 70000:
            await s.send(m)
            assert await s.recv() == m
        print("echoed", len(m))
asyncio.run(main())
`)
	source := filepath.Join(l.dir, "java", "Fetch.java")
	file(t, source, `import java.net.*;
import java.net.http.*;
public class Fetch { public static void main(String[] a) throws Exception {
  var r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(new URI(a[0])).build(), HttpResponse.BodyHandlers.ofString());
  System.out.println(r.body()); System.exit(r.statusCode() == 200 ? 0 : 1); } }`)
	if out, err := exec.CommandContext(t.Context(), "javac", "-d", filepath.Dir(source), source).CombinedOutput(); err != nil {
		t.Fatalf("cannot compile, make setup: %v: %s", err, out)
	}
}

// web is a server with a bit of everything.
func (l *programLab) web(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello over %s", r.Proto) })
	mux.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	mux.HandleFunc("/ws", echoWebSocket)
	registries(t, mux)
	l.repository(t)
	mux.Handle("/git/", &cgi.Handler{Path: "/usr/lib/git-core/git-http-backend", Root: "/git", Env: []string{
		"GIT_PROJECT_ROOT=" + l.dir, "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	return mux
}

// registries are stand-ins for npm's and Python's, with one package each.
func registries(t *testing.T, mux *http.ServeMux) {
	t.Helper()
	const at = "http://api.example:8080"
	var tgz, wheel bytes.Buffer
	gz := gzip.NewWriter(&tgz)
	tw := tar.NewWriter(gz)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"left","version":"1.0.0","main":"i.js"}`, "package/i.js": `module.exports = "installed by npm"`,
	} {
		must(t, tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(tw, text)
		must(t, err)
	}
	must(t, tw.Close())
	must(t, gz.Close())
	z := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"left.py":                     `text = "installed by pip"`,
		"left-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: left\nVersion: 1.0\n",
		"left-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"left-1.0.dist-info/RECORD":   "left.py,,\nleft-1.0.dist-info/METADATA,,\nleft-1.0.dist-info/WHEEL,,\nleft-1.0.dist-info/RECORD,,\n",
	} {
		w, err := z.Create(name)
		must(t, err)
		_, err = io.WriteString(w, text)
		must(t, err)
	}
	must(t, z.Close())
	mux.HandleFunc("/npm/left", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "left", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{
			"1.0.0": map[string]any{"name": "left", "version": "1.0.0", "dist": map[string]string{"tarball": at + "/npm/left.tgz"}},
		}})
	})
	mux.HandleFunc("/npm/left.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tgz.Bytes()) })
	mux.HandleFunc("/simple/left/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="%s/left-1.0-py3-none-any.whl">left</a></body></html>`, at)
	})
	mux.HandleFunc("/left-1.0-py3-none-any.whl", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheel.Bytes()) })
}

// echoWebSocket sends each message back (RFC 6455): masked ones of a client
// that doesn't split them.
func echoWebSocket(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	for rw.Flush() == nil && echoFrame(rw) == nil {
	}
}

func echoFrame(rw *bufio.ReadWriter) error {
	head := make([]byte, 2, 10)
	if _, err := io.ReadFull(rw, head); err != nil {
		return err
	}
	size := uint64(head[1] & 0x7f)
	if extra := map[uint64]int{126: 2, 127: 8}[size]; extra > 0 {
		head = head[:2+extra]
		if _, err := io.ReadFull(rw, head[2:]); err != nil {
			return err
		}
		size = binary.BigEndian.Uint64(append(make([]byte, 8-extra), head[2:]...))
	}
	body := make([]byte, 4+min(size, 1<<20))
	if _, err := io.ReadFull(rw, body); err != nil {
		return err
	}
	for i := range body[4:] {
		body[4+i] ^= body[i%4]
	}
	head[1] &^= 0x80 // a server's aren't masked
	_, err := rw.Write(append(head, body[4:]...))
	if head[0]&0xf == 8 { // a close, which the server follows with its own
		return errors.Join(io.EOF, rw.Flush())
	}
	return err
}

// h2c is what a gRPC server is on the wire, less its messages' form: HTTP/2
// without TLS, both ways at once, the status in a trailer.
func (l *programLab) h2c(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		buf := make([]byte, 1024)
		for {
			n, err := r.Body.Read(buf)
			_, _ = w.Write(buf[:n])
			_ = rc.Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set("Grpc-Status", "0")
	}))
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestGoStream is a client: this binary, run inside. It sends one message
// after it has heard the one before.
func TestGoStream(t *testing.T) {
	url := os.Getenv("GOSTREAM")
	if url == "" {
		return
	}
	pr, pw := io.Pipe()
	tr := &http.Transport{Protocols: &http.Protocols{}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	req, _ := http.NewRequest(http.MethodPost, url, pr) //nolint:noctx // the test that runs it bounds it
	resp, err := tr.RoundTrip(req)
	if err != nil {
		os.Exit(1)
	}
	n := 0
	for buf := make([]byte, 7); n < 20; n++ {
		fmt.Fprintf(pw, "ping %02d", n)
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != fmt.Sprintf("ping %02d", n) {
			os.Exit(1)
		}
	}
	pw.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	fmt.Printf("%d messages, grpc-status %s\n", n, resp.Trailer.Get("Grpc-Status"))
	os.Exit(0)
}

// login is a real sshd, one process for each connection, as inetd has it.
func (l *programLab) login(t *testing.T) string {
	t.Helper()
	keys := filepath.Join(l.dir, "keys")
	mkdir(t, keys)
	for _, name := range []string{"id", "host"} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, name)).CombinedOutput(); err != nil {
			t.Fatalf("cannot make a key: %v: %s", err, out)
		}
	}
	file(t, filepath.Join(keys, "config"), fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/id.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n", keys))
	argv := []string{"/usr/sbin/sshd", "-i", "-e", "-f", filepath.Join(keys, "config")}
	if _, err := os.Stat("/run/sshd"); err != nil && os.Geteuid() == 0 {
		// It wants /run/sshd of root, which is the machine's to make: it gets a /run of its own.
		argv = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"`, "-"}, argv...)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f, err := c.(*net.TCPConn).File()
			c.Close()
			if err != nil {
				return
			}
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Stdin, cmd.Stdout = f, f
			go func() {
				defer f.Close()
				_ = cmd.Run() // its end is the client's to judge
			}()
		}
	}()
	return ln.Addr().String()
}

// startServer runs a real server as an ordinary user until the test ends, and
// waits for the line that says that it is ready.
func startServer(t *testing.T, ready string, argv0 string, argv ...string) {
	t.Helper()
	out, w, err := os.Pipe()
	must(t, err)
	cmd := &exec.Cmd{Path: argv0, Args: argv, Stdout: w, Stderr: w, SysProcAttr: asNobody()}
	must(t, cmd.Start())
	w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		out.Close()
	})
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said += lines.Text() + "\n"; strings.Contains(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatalf("%s has ended: %s", argv0, said)
}

// asNobody makes a child nobody's where the test is root: servers refuse to
// be root.
func asNobody() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// serverDir is an empty directory of the server's own.
func serverDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "server")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		must(t, os.Chown(dir, nobody, nobody))
	}
	return dir
}

// freePort is one that nobody has.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	must(t, err)
	return port
}

func startPostgres(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("there is no PostgreSQL: make setup")
	}
	bin, data, port := found[len(found)-1], filepath.Join(serverDir(t), "data"), freePort(t)
	init := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "lab", "-A", "trust", "-N", "--no-locale", "-E", "UTF8", "--no-instructions")
	init.SysProcAttr, init.Dir = asNobody(), filepath.Dir(data)
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("cannot make a database: %v: %s", err, out)
	}
	startServer(t, "ready to accept connections", filepath.Join(bin, "postgres"), filepath.Join(bin, "postgres"), "-D", data, "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "logging_collector=off", "-c", "lc_messages=C")
	return "127.0.0.1:" + port
}

// startRedis runs Debian's: the package of the client has the server's whole
// program, under the name of one of its tools, and starts no service.
func startRedis(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	startServer(t, "Ready to accept connections", "/usr/bin/redis-check-rdb", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", serverDir(t))
	return "127.0.0.1:" + port
}

// userName is who runs the test.
func userName(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	must(t, err)
	return u.Username
}
