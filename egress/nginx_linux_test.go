package egress_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The server that most of the web is, with the habits that a proxy trips over:
// chunked and compressed answers, ranges, sendfile, redirects, its own opinion
// of bodies, HTTP/2 over TLS.
const nginxConf = `
daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr notice;
events { worker_connections 256; }
http {
  access_log off; keepalive_requests 1000; sendfile on; client_max_body_size 4m; types { text/plain txt; }
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  gzip on; gzip_min_length 1; gzip_types text/plain;
  ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;
  server {
    listen 127.0.0.1:%[2]s; listen 127.0.0.1:%[3]s ssl http2; root %[1]s/www;
    location = /moved { return 302 http://denied.example/secret; }
    location = /none { return 204; }
    location = /trailer { add_trailer X-Sum seen; chunked_transfer_encoding on; gzip on; return 200 "body\n"; }
    location /put/ { dav_methods PUT DELETE; create_full_put_path on; }
    location /back/ { proxy_pass http://127.0.0.1:%[2]s/; proxy_http_version 1.1; }
  }
}`

// nginxLab is nginx as allowed.example, on ports 80 and 443.
type nginxLab struct {
	*lab
	dir, sum string
}

func newNginxLab(t *testing.T) *nginxLab {
	t.Helper()
	if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
		t.Fatal("there is no nginx: make setup")
	}
	dir, err := os.MkdirTemp("", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sum := bigFile(t, dir)
	writeFile(t, dir+"/www/page.txt", strings.Repeat("a page of nginx\n", 4000))
	certificate(t, dir, "allowed.example")
	plain, secure := freePort(t), freePort(t)
	writeFile(t, dir+"/conf", fmt.Sprintf(nginxConf, dir, plain, secure))
	startNginx(t, dir)
	l := newLab(t, labConfig{allow: []string{"allowed.example"}})
	l.names.set("allowed.example", "203.0.113.1")
	l.net.route("203.0.113.1:80", "127.0.0.1:"+plain)
	l.net.route("203.0.113.1:443", "127.0.0.1:"+secure)
	return &nginxLab{l, dir, sum}
}

// bigFile is made and compared piece by piece: other tests measure the heap.
func bigFile(t *testing.T, dir string) (sum string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `cd "$1" && mkdir www && head -c 24m /dev/urandom > www/big && sha256sum < www/big`, "-", dir).Output()
	if err != nil {
		t.Fatalf("cannot make a file: %v", err)
	}
	return string(out)
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(listenOnce(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// listenOnce is an address that nobody has.
func listenOnce(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func certificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test"}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir+"/cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, dir+"/key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// startNginx runs it as an ordinary user until the test ends.
func startNginx(t *testing.T, dir string) {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/usr/sbin/nginx", Args: []string{"nginx", "-e", "stderr", "-p", dir, "-c", dir + "/conf"}, Stderr: w}
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if b, err := exec.CommandContext(t.Context(), "chown", "-R", "nobody", dir).CombinedOutput(); err != nil {
			t.Fatalf("cannot give it its files: %v: %s", err, b)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		out.Close()
	})
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said += lines.Text() + "\n"; strings.Contains(said, "start worker process ") {
			go io.Copy(io.Discard, out)
			return
		}
	}
	t.Fatalf("nginx has ended: %s", said)
}

// sumOf is what bigFile says of what curl gets.
func (l *nginxLab) sumOf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `curl -sS --max-time 60 "$@" | sha256sum`, "-", "--cacert", l.dir + "/cert.pem"}, args...)...)
	cmd.Env = []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// curl is all that it printed.
func (l *nginxLab) curl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "--max-time", "60", "--cacert", l.dir + "/cert.pem"}, args...)...)
	cmd.Env = []string{"HOME=/nonexistent"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

// ways lead to it: as a proxy has it, by CONNECT, by SOCKS, and with TLS.
func (l *nginxLab) ways() map[string][]string {
	const http, https = "http://allowed.example", "https://allowed.example"
	return map[string][]string{
		"http":         {http, "-x", "http://" + l.addr},
		"connect":      {http, "-p", "-x", "http://" + l.addr},
		"socks":        {http, "-x", "socks5h://" + l.addr},
		"https":        {https, "--http1.1", "-x", "http://" + l.addr},
		"https, http2": {https, "--http2", "-x", "http://" + l.addr},
		"https, socks": {https, "--http2", "-x", "socks5h://" + l.addr},
	}
}

// isRefused wants the proxy's refusal, by whatever way it comes.
func isRefused(t *testing.T, said string) {
	t.Helper()
	if !strings.Contains(said, "not_listed") && !strings.Contains(said, "response 403") && !strings.Contains(said, "status 97") {
		t.Errorf("got %q, want a refusal", clip(said))
	}
}

func TestNginx(t *testing.T) {
	t.Parallel()
	l := newNginxLab(t)
	put := filepath.Join(l.dir, "upload")
	writeFile(t, put, strings.Repeat("0123456789abcdef", 3<<16)) // 3 MiB
	writeFile(t, put+"-big", strings.Repeat("x", 5<<20))
	page := strings.Repeat("a page of nginx\n", 4000)
	for way, front := range l.ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			base, front := front[0], front[1:]
			get := func(path string, args ...string) string {
				return l.curl(t, append(append(args, front...), base+path)...)
			}
			is := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: got %q, want %q", what, clip(got), clip(want))
				}
			}
			holds := func(what, got string, parts ...string) {
				t.Helper()
				for _, part := range parts {
					if !strings.Contains(got, part) {
						t.Errorf("%s: got %q, want it to hold %q", what, clip(got), part)
					}
				}
			}
			is("page", get("/page.txt"), page)
			is("compressed, chunked", get("/page.txt", "--compressed"), page)
			is("range", get("/page.txt", "-r", "2-5"), "page")
			holds("head", strings.ToLower(get("/page.txt", "-I")), " 200", fmt.Sprint("\ncontent-length: ", len(page)), "\nserver: nginx")
			is("no content", get("/none", "-w", "%{http_code} %{size_download}"), "204 0")
			holds("no such file", get("/nothing", "-w", "%{http_code}"), "404 Not Found", "404")
			is("a redirect is the client's", get("/moved", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"), "302 http://denied.example/secret")
			isRefused(t, get("/moved", "-L"))
			if !strings.Contains(strings.Join(front, " "), "http2") { // which nginx 1.22 has none in
				holds("trailer", strings.ToLower(get("/trailer", "-i")), "body\n", "x-sum: seen")
			}
			is("kept alive", get("/none", "-w", "%{num_connects} ", base+"/none", base+"/none"), "1 0 0 ")
			is("a big file", l.sumOf(t, append(front, base+"/big")...), l.sum)
			is("through nginx's own proxy", l.sumOf(t, append(front, base+"/back/big")...), l.sum)
			name := strings.ReplaceAll(way, ", ", "-")
			is("upload", get("/put/"+name, "-T", put, "-w", "%{http_code}"), "201")
			holds("too big an upload", get("/put/too", "-T", put+"-big", "-H", "Expect: 100-continue", "-w", "%{http_code}"), "413")
			if stored, err := os.ReadFile(l.dir + "/www/put/" + name); err != nil || len(stored) != 3<<20 {
				t.Errorf("stored %d bytes, %v", len(stored), err)
			}
			// Denied at once, whatever the way.
			began := time.Now()
			denied := l.curl(t, append(front, strings.Replace(base, "allowed", "denied", 1)+"/page.txt")...)
			isRefused(t, denied)
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("denied after %v", d)
			}
		})
	}
}
