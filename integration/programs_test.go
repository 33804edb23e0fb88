//go:build linux

package integration_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needsProgram fails, or for a program that may be missing skips, a test.
func needsProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is not installed: make setup", name)
	}
}

// works runs a shell line inside, which must succeed and print want.
func (l *lab) works(t *testing.T, line, want string) {
	t.Helper()
	c := sh(workspaceOnly(), "set -e\n"+line)
	c.timeout = 3 * time.Minute
	res := l.wrap(t, c)
	if res.code != 0 || !strings.Contains(res.stdout, want) {
		t.Errorf("want exit 0 and %q: %v", want, res)
	}
}

func TestGitInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.works(t, `echo more >> README.md
		git add -A; git commit -q -m second; git log --oneline | wc -l; git status --porcelain | wc -l
		git checkout -q -b topic; git merge -q --no-edit master 2>/dev/null || git merge -q --no-edit main; git gc -q; git stash list
		mkdir new; cd new; git init -q; echo x > a; git add -A; git commit -q -m first; git status --short; git log --format=%s`, "2\n0\nfirst\n")
	if got := l.git(t, "log", "--format=%s", "-1"); got != "second\n" {
		t.Errorf("the host sees %q", got)
	}
}

func TestGitCloneInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.works(t, `git clone -q --no-hardlinks . copy; cd copy; git worktree add -q ../tree; cd ../tree; cat README.md; git status --short`, "hello\n")
}

func TestGoBuildInside(t *testing.T) {
	t.Parallel()
	needsProgram(t, "go")
	l := newLab(t)
	write(t, l.ws+"/go.mod", "module lab\n\ngo 1.21\n", 0o644)
	write(t, l.ws+"/main.go", "package main\n\nfunc main() { println(\"built inside\") }\n", 0o644)
	l.works(t, `export GOCACHE=`+l.run+`/cache GOFLAGS=-buildvcs=false GOTOOLCHAIN=local GOPROXY=off; go build -o prog . && ./prog 2>&1`, "built inside")
}

func TestPythonVenvInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.works(t, `/usr/bin/python3 -m venv env; ./env/bin/python -c 'import multiprocessing, sqlite3, tempfile; tempfile.TemporaryFile(); multiprocessing.Lock(); print("venv works")'
		./env/bin/pip --version | cut -d' ' -f1`, "venv works\npip\n")
}

func TestNodeInside(t *testing.T) {
	t.Parallel()
	needsProgram(t, "node")
	l := newLab(t)
	l.works(t, `node -e 'const fs=require("fs"),os=require("os"),cp=require("child_process"); fs.writeFileSync("n","x"); console.log(cp.execSync("echo from a child").toString().trim(), os.cpus().length>0)'`, "from a child true")
}

// ownSockets are programs whose processes talk to each other over sockets of
// their own: named, abstract, passed on, and on the loopback.
func ownSockets() map[string]struct{ argv, text, want string } {
	return map[string]struct{ argv, text, want string }{
		"multiprocessing": {"/usr/bin/python3", `
import multiprocessing as m, os
from multiprocessing.connection import Client, Listener
def square(x): return x * x
if __name__ == "__main__":
    for how in "fork", "spawn", "forkserver":
        with m.get_context(how).Pool(2) as pool: print(how, pool.map(square, [1, 2, 3]))
    with m.Manager() as manager: print(dict(manager.dict(a=1)))
    for at in "\0pinfold-own", None:
        listener = Listener(at, "AF_UNIX")
        if os.fork() == 0: Client(listener.address).send("sent"); os._exit(0)
        print(listener.accept().recv())
`, "fork [1, 4, 9]\nspawn [1, 4, 9]\nforkserver [1, 4, 9]\n{'a': 1}\nsent\nsent\n"},
		// As browsers are driven: a child with pipes 3 and 4, a socket in a
		// temporary directory, and a server on the loopback.
		"a driven browser": {"node", `
const {spawn, fork} = require("child_process"), net = require("net"), fs = require("fs"), http = require("http"), path = require("path")
if (process.argv[2] === "browser") {
	const out = fs.createWriteStream(null, {fd: 4})
	fs.createReadStream(null, {fd: 3}).on("data", d => out.write("answered " + d))
} else if (process.argv[2] === "worker") {
	process.send("by ipc", () => process.disconnect())
} else (async () => {
	const heard = s => new Promise((ok, no) => s.on("data", d => ok(String(d))).on("error", no))
	const child = spawn(process.execPath, [__filename, "browser"], {stdio: ["ignore", "inherit", "inherit", "pipe", "pipe"], detached: true})
	child.stdio[3].write("a pipe"); console.log(await heard(child.stdio[4]))
	const at = path.join(fs.mkdtempSync(path.join(require("os").tmpdir(), "own-")), "s")
	await new Promise(ok => net.createServer(s => s.end("by name")).listen(at, ok)); console.log(await heard(net.connect(at)))
	const web = await new Promise(ok => { const s = http.createServer((q, r) => r.end("by the loopback")).listen(0, "127.0.0.1", () => ok(s)) })
	console.log(await new Promise(ok => http.get({host: "localhost", port: web.address().port, family: 4}, r => ok(heard(r)))))
	console.log(await new Promise(ok => fork(__filename, ["worker"]).on("message", ok)))
	process.kill(-child.pid); process.exit(0)
})()
`, "answered a pipe\nby name\nby the loopback\nby ipc\n"},
	}
}

// TestOwnSocketsInside: with a network and without one. What the host listens
// on, also in the workspace, isn't among a command's own.
func TestOwnSocketsInside(t *testing.T) {
	t.Parallel()
	for name, c := range ownSockets() {
		for way, policy := range map[string]doc{"alone": workspaceOnly(), "with a network": allows("api.example")} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				needsProgram(t, c.argv)
				l := newLab(t)
				write(t, l.ws+"/program", c.text, 0o644)
				if res := l.wrap(t, launch{policy: policy, argv: []string{c.argv, "program"}}); res.code != 0 || res.stdout != c.want {
					t.Errorf("wanted %q: %v", c.want, res)
				}
				l.theirs(t, policy)
			})
		}
	}
}

// theirs is a socket of the host's in the workspace.
func (l *lab) theirs(t *testing.T, policy doc) {
	t.Helper()
	host, err := net.Listen("unix", l.ws+"/theirs")
	must(t, err)
	defer host.Close()
	c := launch{policy: policy, argv: []string{"/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_UNIX).connect('theirs')"}}
	if res := l.wrap(t, c); res.code == 0 || !strings.Contains(res.stderr, "PermissionError") {
		t.Errorf("the host's socket was reached: %v", res)
	}
	if res := l.direct(t, c); res.code != 0 {
		t.Errorf("it isn't reached outside either, so this shows nothing: %v", res)
	}
}

func TestNpmInstallInside(t *testing.T) {
	t.Parallel()
	needsProgram(t, "npm")
	l := newLab(t)
	write(t, l.ws+"/dep/package.json", `{"name":"dep","version":"1.0.0","main":"i.js","scripts":{"postinstall":"echo x > made"}}`, 0o644)
	write(t, l.ws+"/dep/i.js", `module.exports = "installed inside"`, 0o644)
	write(t, l.ws+"/app/package.json", `{"name":"app","version":"1.0.0"}`, 0o644)
	l.works(t, `export npm_config_cache=`+l.run+`/npm npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
		npm pack --silent ./dep >/dev/null; cd app; npm install --silent --offline ../dep-1.0.0.tgz; node -p 'require("dep")'`, "installed inside")
}

func TestMakeInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.ws+"/Makefile", "all: "+strings.Repeat("x", 0)+"a b c d\n\tcat a b c d > all\na b c d:\n\t@echo $@ > $@\nprog: prog.c\n\tgcc -o prog prog.c\n", 0o644)
	write(t, l.ws+"/prog.c", "#include <stdio.h>\nint main(void) { puts(\"compiled inside\"); return 0; }\n", 0o644)
	l.works(t, `make -s -j4 all prog; wc -l < all; ./prog`, "4\ncompiled inside\n")
}

func TestManyProcessesAndFilesInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.works(t, `i=0; while [ $i -lt 200 ]; do (echo $i > f$i) & i=$((i+1)); done; wait; ls f* | wc -l; rm f*; mkfifo p; (echo through > p) & cat p; rm p`, "200\nthrough\n")
}

func TestDebuggerInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.works(t, `sleep 50 & /usr/bin/env true; kill -0 $!; kill $!; echo own children`, "own children")
}

// TestWorkspaceOfManyShapes wraps in workspaces that are awkward but right.
func TestWorkspaceOfManyShapes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("d", 200)+"/", 15)
	for name, sub := range map[string]string{
		"spaces": "with  two spaces", "newline": "with\nnewline", "quotes": `with "double" and 'single'`, "unicode": "übung-日本-🐑",
		"backslash": `back\slash`, "dollar": "$HOME", "star": "a*b?[c]", "dash": "-dash", "braces": "{workspace}", "tilde": "~", "long": long, "not UTF-8": "\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ws := filepath.Join(l.root, "shapes", sub)
			mkdir(t, ws)
			res := l.wrap(t, launch{
				bare: true, flags: []string{"--workspace", ws, "--state", l.state}, dir: ws, policy: workspaceOnly(),
				argv: []string{"/bin/sh", "-c", "pwd; echo inside > made"},
			})
			if res.code != 0 || res.stdout != ws+"\n" {
				t.Fatalf("want to work in %q: %v", ws, res)
			}
			if got := read(t, ws+"/made"); got != "inside\n" {
				t.Errorf("made holds %q", got)
			}
		})
	}
}

func TestThrowAwayWorkspace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, launch{bare: true, flags: []string{"--workspace", "tmp", "--state", l.state}, policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", "pwd; echo x > made; ls -A"}})
	where, rest, _ := strings.Cut(res.stdout, "\n")
	if res.code != 0 || rest != "made\n" {
		t.Fatalf("got %v", res)
	}
	if _, err := os.Lstat(where); err == nil {
		t.Errorf("the throw-away workspace %q is still there", where)
	}
}
