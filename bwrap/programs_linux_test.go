package bwrap_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold/event"
	"pinfold/policy"
)

// program is one that everybody uses, in shell: allowed must print want, and
// denied must fail.
type program struct {
	needs   string // a shell line that fails where it is missing
	allowed string
	want    string
	denied  string // "": allowed, at another host
	proxied bool   // works through a proxy by the variables alone
}

const (
	debianPython = "/usr/bin/python3 " // with the modules of Debian's packages
	// The lab's dates and keys are its own; nothing of the machine's is asked.
	sshOptions = `-F /dev/null -i $LAB/keys/id -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes`
	quietNPM   = `npm install --silent --no-audit --no-fund --no-update-notifier --fetch-retries=0 --registry http://api.example:8080/npm/ `
	pipInstall = debianPython + `-m pip install -q --target /tmp/pip --no-cache-dir --disable-pip-version-check --retries 0 --trusted-host api.example -i http://api.example:8080/simple left`
)

// webPrograms speak HTTP in one of its forms.
func webPrograms() map[string]program {
	return map[string]program{
		"java": {
			"command -v javac java", "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp $LAB/java Fetch http://api.example:8080/hello",
			"hello over HTTP/1.1", "", true,
		},
		"wget https": {
			"command -v wget", `wget -q --ca-certificate=$CA -O - https://example.com/hello`, "hello over HTTP/1.1",
			`wget -q --tries=1 --ca-certificate=$CA -O - https://other.example/hello`, true,
		},
		"urllib https": {
			"command -v python3", `SSL_CERT_FILE=$CA ` + debianPython + `-c 'import urllib.request as u; print(u.urlopen("https://example.com/hello").read().decode())'`,
			"hello over HTTP/1.1", "", true,
		},
		"requests, one connection": {
			debianPython + "-c 'from pip._vendor import requests'",
			debianPython + `-c 'from pip._vendor import requests; s = requests.Session(); r = [s.get("http://api.example:8080/peer") for i in range(5)]; [x.raise_for_status() for x in r]; print(len({x.text for x in r}), "connection")'`,
			"1 connection", "", true,
		},
		"httpx": {
			debianPython + "-c 'import httpx'", debianPython + `-c 'import httpx; r = httpx.get("http://api.example:8080/hello"); r.raise_for_status(); print(r.text)'`,
			"hello over HTTP/1.1", "", true,
		},
		"fetch https": {
			"command -v node", `node -e 'fetch("https://example.com/hello").then(r=>r.text()).then(console.log,e=>{console.log(String(e.cause||e));process.exit(1)})'`,
			"hello over HTTP/1.1", "", false,
		},
		"websocket": {
			debianPython + "-c 'import websockets'", debianPython + "$LAB/ws.py ws://api.example:8080/ws", "echoed 70000", "", false,
		},
		"h2c": {
			"command -v curl", `curl -sSfp --http2-prior-knowledge -d ping http://api.example:50051/echo -w ' over %{http_version}'`, "ping over 2", "", true,
		},
		"stream over h2c": {
			"true", "GOSTREAM=http://api.example:50051/echo $LAB/go-client -test.run TestGoStream", "20 messages, grpc-status 0", "", false,
		},
		"npm": {
			"command -v npm", `mkdir -p /tmp/npm && cd /tmp/npm && ` + quietNPM + `left && node -p 'require("left")'`, "installed by npm",
			`mkdir -p /tmp/npm2 && cd /tmp/npm2 && ` + strings.ReplaceAll(quietNPM, "api.example", "other.example") + `right`, true,
		},
		"pip": {
			debianPython + "-m pip --version", pipInstall + ` && PYTHONPATH=/tmp/pip ` + debianPython + `-c 'import left; print(left.text)'`, "installed by pip",
			strings.ReplaceAll(pipInstall, "api.example", "other.example"), true,
		},
		"git https": {
			"command -v git", `git -c http.sslCAInfo=$CA clone -q https://example.com/git/repo.git /tmp/https && cat /tmp/https/file`, "content",
			`git -c http.sslCAInfo=$CA clone -q https://other.example/git/repo.git /tmp/other`, true,
		},
	}
}

// otherPrograms know of no HTTP, and of no proxy.
func otherPrograms() map[string]program {
	return map[string]program{
		"psql": {
			"command -v psql", `psql -w -h api.example -U lab -d postgres -Atc "select count(*), 'rows' from generate_series(1, 100000)"`, "100000|rows", "", false,
		},
		"redis-cli": {
			"command -v redis-cli", `redis-cli -h api.example SET key value && redis-cli -h api.example GET key`, "OK\nvalue", "", false,
		},
		"ssh": {
			"test -x /usr/sbin/sshd", `ssh ` + sshOptions + ` $USER@api.example 'cat; echo over ssh' <<< in`, "in\nover ssh", "", false,
		},
		"ssh, sharing a connection": {
			"test -x /usr/sbin/sshd", `shared="ssh ` + sshOptions + ` -o ControlPath=/tmp/shared $USER@api.example" && $shared -fNM >/dev/null && $shared -o ProxyCommand=false 'echo over the master' && $shared -O exit 2>/dev/null`,
			"over the master", "", false,
		},
		"git ssh": {
			"test -x /usr/sbin/sshd", `export GIT_SSH_COMMAND="ssh ` + sshOptions + `"; git clone -q ssh://$USER@api.example$LAB/repo.git /tmp/ssh && cat /tmp/ssh/file`, "content",
			`export GIT_SSH_COMMAND="ssh ` + sshOptions + `"; git clone -q ssh://$USER@other.example$LAB/repo.git /tmp/other`, false,
		},
	}
}

// attempts runs both and tells the exit code of each, and by how many
// milliseconds the second one took longer. A busy machine may need three tries
// to show that nothing is waited for.
const attempts = `took() { local s=${EPOCHREALTIME/./}; ("$@") >/tmp/said 2>&1; code=$?; ms=$(( (${EPOCHREALTIME/./} - s) / 1000 )); }
allowed() { %s
}
denied() { %s
}
took allowed; base=$ms; cat /tmp/said; echo "@ $code"
for try in 1 2 3; do took denied; [ $((ms - base)) -lt 1000 ] && break; done
cat /tmp/said; echo "@ $code $((ms - base))"
`

// Programs reach what is allowed with no proxy variable in sight, and what
// isn't is refused at once, with an event. Those that know proxies do the
// same with one.
func TestPrograms(t *testing.T) {
	if raced {
		t.Skip("the programs are no different under the race detector")
	}
	l := newProgramLab(t)
	for _, list := range []map[string]program{webPrograms(), otherPrograms()} {
		for name, p := range list {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l.attempt(t, p)
			})
		}
	}
}

// attempt runs a program without a proxy, and with one where it knows proxies.
func (l *clientLab) attempt(t *testing.T, p program) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", p.needs).CombinedOutput(); err != nil {
		t.Fatalf("it is not installed, make setup: %v: %s", err, out)
	}
	if p.denied == "" {
		p.denied = strings.NewReplacer("api.example", "other.example", "example.com", "other.example").Replace(p.allowed)
	}
	l.attemptBy(t, policy.ModeTransparent, p)
	if p.proxied {
		l.attemptBy(t, policy.ModeProxy, p)
	}
}

func (l *clientLab) attemptBy(t *testing.T, mode policy.NetworkMode, p program) {
	t.Helper()
	own := *l
	own.events = &sink{}
	r := own.run(t, mode, fmt.Sprintf(attempts, p.allowed, p.denied))
	allowed, rest, _ := strings.Cut(r.out, "@ ")
	code, rest, _ := strings.Cut(rest, "\n")
	if code != "0" || !strings.HasSuffix(strings.TrimSpace(allowed), p.want) {
		t.Errorf("%s: code %s, %q, wanted %q: %s %+v", mode, code, allowed, p.want, r.err, r.exit)
	}
	denied, rest, _ := strings.Cut(rest, "@ ")
	code, late, _ := strings.Cut(strings.TrimSpace(rest), " ")
	ms, err := strconv.Atoi(late)
	if code == "0" || err != nil || ms >= 1000 {
		t.Errorf("%s: denied: code %s, %s ms later: %q", mode, code, late, denied)
	}
	t.Logf("%s: the denied try took %s ms more than the allowed one", mode, late)
	if !slices.ContainsFunc(own.events.all(), func(e event.Event) bool { return e.Action == event.Denied }) {
		t.Errorf("%s: no event says that anything was denied: %q", mode, denied)
	}
}
