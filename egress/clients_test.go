package egress_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
)

// clientLab is a lab whose names lead to real servers: a web server plain and
// with TLS, git's smart HTTP, an npm registry, sshd.
type clientLab struct {
	*lab
	dir string
	ca  string
}

func newClientLab(t *testing.T) *clientLab {
	t.Helper()
	if testing.Short() {
		t.Skip("real programs take their time")
	}
	l := newLab(t, labConfig{allow: []string{"allowed.example", "git.example", "registry.example", "ssh.example"}})
	cl := &clientLab{lab: l, dir: t.TempDir()}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello over "+r.Proto) })
	l.web("allowed.example", hello)
	tls := httptest.NewTLSServer(hello)
	t.Cleanup(tls.Close)
	l.net.route("203.0.113.1:443", tls.Listener.Addr().String())
	cl.ca = filepath.Join(cl.dir, "ca.pem")
	writeFile(t, cl.ca, pemOf(tls))
	return cl
}

func pemOf(s *httptest.Server) string {
	var b bytes.Buffer
	pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return b.String()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts a program with nothing but the wiring in its environment.
func (l *clientLab) run(name string, args ...string) string {
	l.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		l.t.Skipf("no %s here", name)
	}
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = l.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "TMPDIR=" + l.dir, "PYENV_ROOT=" + os.Getenv("PYENV_ROOT"),
		"RUSTUP_HOME=" + cmp.Or(os.Getenv("RUSTUP_HOME"), filepath.Join(os.Getenv("HOME"), ".rustup")), "CARGO_HOME=" + filepath.Join(l.dir, "cargo"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "PIP_DISABLE_PIP_VERSION_CHECK=1",
	},
		append(egress.ProxyEnv(l.addr), egress.SSHEnv(self)...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s\n(%v)", out, err)
	}
	return string(out)
}

func (l *clientLab) want(t *testing.T, part string, name string, args ...string) {
	t.Helper()
	l.t = t
	if got := l.run(name, args...); !strings.Contains(got, part) {
		t.Errorf("%s %s: got\n%s, want %q", name, strings.Join(args, " "), clip(got), part)
	}
}

// TestClients runs everyday programs with no flags but the certificate.
func TestClients(t *testing.T) {
	t.Parallel()
	cl := newClientLab(t)
	const plain, secure, denied = "http://allowed.example/", "https://allowed.example/", "http://denied.example/"
	py := "import urllib.request as u; print(u.urlopen('%s').read().decode())"
	for name, f := range map[string]func(*testing.T, *clientLab){
		"curl": func(t *testing.T, l *clientLab) {
			l.want(t, "hello over HTTP/1.1", "curl", "-sS", plain)
			l.want(t, "hello over HTTP", "curl", "-sS", "-k", secure)
			l.want(t, "not_listed", "curl", "-sS", denied)
			l.want(t, "403", "curl", "-sS", "https://denied.example/")
		},
		"wget": func(t *testing.T, l *clientLab) {
			l.want(t, "hello over HTTP/1.1", "wget", "-q", "-O", "-", plain)
			l.want(t, "hello over HTTP/1.1", "wget", "-q", "-O", "-", "--no-check-certificate", secure)
			l.want(t, "403", "wget", "-O", "-", denied)
		},
		"python": func(t *testing.T, l *clientLab) {
			l.want(t, "hello over HTTP/1.1", "python3", "-c", fmt.Sprintf(py, plain))
			l.want(t, "HTTP Error 403", "python3", "-c", fmt.Sprintf(py, denied))
		},
		"node": func(t *testing.T, l *clientLab) {
			l.t = t
			if v := l.run("node", "-p", "process.versions.node.split('.')[0] >= 24"); !strings.Contains(v, "true") {
				t.Skip("this Node doesn't know NODE_USE_ENV_PROXY")
			}
			l.want(t, "hello over HTTP/1.1", "node", "-e", "fetch('"+plain+"').then(r=>r.text()).then(console.log)")
		},
		"java": func(t *testing.T, l *clientLab) {
			writeFile(t, filepath.Join(l.dir, "Get.java"), javaGet)
			l.want(t, "hello over HTTP/1.1", "java", "Get.java", plain)
			l.want(t, "403", "java", "Get.java", denied)
		},
	} {
		t.Run(name, func(t *testing.T) { own := *cl; inner := *cl.lab; own.lab = &inner; f(t, &own) })
	}
}

const javaGet = `import java.net.*;
public class Get { public static void main(String[] a) throws Exception {
  try (var in = new URI(a[0]).toURL().openStream()) { System.out.println(new String(in.readAllBytes())); } } }`

// TestGit clones over smart HTTP and over ssh, by `pinfold connect`.
func TestGit(t *testing.T) {
	t.Parallel()
	l := newClientLab(t)
	repo := filepath.Join(l.dir, "srv", "r.git")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "work"},
		{"-C", "work", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "first"},
		{"clone", "-q", "--bare", "work", repo},
		{"-C", repo, "config", "http.receivepack", "true"},
	} {
		l.run("git", args...)
	}
	backend := "/usr/lib/git-core/git-http-backend"
	if _, err := os.Stat(backend); err != nil {
		t.Skip("no git-http-backend here")
	}
	l.web("git.example", &cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}})
	l.want(t, "", "git", "clone", "-q", "http://git.example/r.git", "http")
	l.want(t, "first", "git", "-C", "http", "log", "--oneline")
	l.run("git", "-C", "http", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "second")
	l.want(t, "main -> main", "git", "-C", "http", "push", "origin", "main")
	l.want(t, "403", "git", "clone", "-q", "http://denied.example/r.git", "no")
	t.Run("ssh", func(t *testing.T) { gitOverSSH(t, l, repo) })
}

func gitOverSSH(t *testing.T, l *clientLab, repo string) {
	l.lab.t = t
	port := startSSHD(t, l)
	l.host("ssh.example", 22, port)
	ssh := "GIT_SSH_COMMAND=" + sshCommand(l)
	l.want(t, "refs/heads/main", "env", ssh, "git", "ls-remote", "ssh://ssh.example"+repo)
	l.want(t, `add "denied.example:22" to network.allow`, "env", ssh, "git", "ls-remote", "ssh://denied.example"+repo)
}

// sshCommand is GIT_SSH_COMMAND with the options that a test needs.
func sshCommand(l *clientLab) string {
	self, _ := os.Executable()
	_, ssh, _ := strings.Cut(egress.SSHEnv(self)[0], "=")
	return ssh + " -F /dev/null -i " + filepath.Join(l.dir, "id") + " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes"
}

// startSSHD serves each connection by an sshd of its own, as inetd would.
func startSSHD(t *testing.T, l *clientLab) string {
	t.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		t.Skip("no sshd here")
	}
	argv := []string{sshd, "-i", "-e", "-f", filepath.Join(l.dir, "sshd_config")}
	if _, err := os.Stat("/run/sshd"); err != nil && os.Geteuid() == 0 {
		// sshd wants /run/sshd of root: give it a /run of its own.
		argv = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"`, "-"}, argv...)
	}
	for _, name := range []string{"id", "host"} {
		l.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(l.dir, name))
	}
	pub, err := os.ReadFile(filepath.Join(l.dir, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(l.dir, "keys"), string(pub))
	writeFile(t, filepath.Join(l.dir, "sshd_config"), fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n",
		filepath.Join(l.dir, "host"), filepath.Join(l.dir, "keys")))
	return rawServer(t, func(c net.Conn) {
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			return
		}
		defer f.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdin, cmd.Stdout = f, f
		cmd.Run() // its end is the client's to judge
	})
}

// TestPackageManagers installs from stand-ins of the registries.
func TestPackageManagers(t *testing.T) {
	t.Parallel()
	l := newClientLab(t)
	tgz := tarball(t, map[string]string{"package/package.json": `{"name":"left","version":"1.0.0"}`, "package/index.js": "module.exports=1"})
	crate := tarball(t, map[string]string{"left-1.0.0/Cargo.toml": "[package]\nname = \"left\"\nversion = \"1.0.0\"\n", "left-1.0.0/src/lib.rs": ""})
	l.web("registry.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/left":
			json.NewEncoder(w).Encode(map[string]any{"name": "left", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{
				"1.0.0": map[string]any{"name": "left", "version": "1.0.0", "dist": map[string]string{"tarball": "http://registry.example/left.tgz"}},
			}})
		case "/left.tgz":
			w.Write(tgz)
		case "/index/config.json":
			io.WriteString(w, `{"dl":"http://registry.example/{crate}.crate"}`)
		case "/index/le/ft/left":
			fmt.Fprintf(w, `{"name":"left","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(crate))
		case "/left.crate":
			w.Write(crate)
		case "/x.example/m/@v/v1.0.0.info":
			io.WriteString(w, `{"Version":"v1.0.0"}`)
		case "/x.example/m/@v/v1.0.0.mod":
			io.WriteString(w, "module x.example/m\n")
		case "/x.example/m/@v/v1.0.0.zip":
			w.Write(zipped(t, map[string]string{"x.example/m@v1.0.0/go.mod": "module x.example/m\n"}))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Run("npm", func(t *testing.T) {
		own, inner := *l, *l.lab
		own.lab = &inner
		own.want(t, "added 1 package", "npm", "install", "--no-audit", "--no-fund", "--registry", "http://registry.example/", "left")
		own.want(t, "403", "npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--registry", "http://denied.example/", "right")
	})
	t.Run("go", func(t *testing.T) {
		own, inner := *l, *l.lab
		own.lab = &inner
		goEnv := []string{"GOPROXY=http://registry.example", "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOPATH=" + filepath.Join(l.dir, "gopath"), "GOTOOLCHAIN=local", "go"}
		own.want(t, `"Version": "v1.0.0"`, "env", append(goEnv, "mod", "download", "-json", "x.example/m@v1.0.0")...)
		goEnv[0] = "GOPROXY=http://denied.example"
		own.want(t, "403", "env", append(goEnv, "mod", "download", "-json", "x.example/n@v1.0.0")...)
	})
	t.Run("cargo", func(t *testing.T) {
		own, inner := *l, *l.lab
		own.lab = &inner
		for _, host := range []string{"registry", "denied"} {
			writeFile(t, filepath.Join(l.dir, host, "Cargo.toml"), "[package]\nname = \"app\"\nversion = \"0.1.0\"\n[dependencies]\nleft = {version = \"1\", registry = \"lab\"}\n")
			writeFile(t, filepath.Join(l.dir, host, "src", "lib.rs"), "")
		}
		fetch := func(host string) []string {
			return []string{
				"fetch", "--manifest-path", filepath.Join(l.dir, host, "Cargo.toml"), "--config", "net.retry=0",
				"--config", fmt.Sprintf("registries.lab.index='sparse+http://%s.example/index/'", host),
			}
		}
		own.want(t, "Downloaded left v1.0.0", "cargo", fetch("registry")...)
		own.want(t, "403", "cargo", fetch("denied")...)
	})
	t.Run("pip", func(t *testing.T) {
		own, inner := *l, *l.lab
		own.lab = &inner
		own.want(t, "ERROR", "python3", "-m", "pip", "download", "--no-deps", "--retries=0", "--trusted-host", "denied.example", "-i", "http://denied.example/simple", "left")
		l.events.wait(t, func(e event.Event) bool { return e.Target == "denied.example:80" && e.Action == event.Denied })
	})
}

func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for name, text := range files {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(tw, text)
	}
	tw.Close()
	gz.Close()
	return b.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	z.Close()
	return b.Bytes()
}
