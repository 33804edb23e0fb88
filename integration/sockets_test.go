//go:build linux

package integration_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// tryHostSockets connects to each of its arguments, and says what came.
const tryHostSockets = `
import errno, socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(path); print(s.recv(9).decode())
    except OSError as e: print(errno.errorcode[e.errno])
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); print("datagrams")
except OSError as e: print(errno.errorcode[e.errno])
`

// greet is a service of the host's.
func (l *lab) greet(t *testing.T, path string) {
	t.Helper()
	mkdir(t, path[:strings.LastIndex(path, "/")])
	service, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { service.Close() })
	go func() {
		for {
			c, err := service.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("host"))
			c.Close()
		}
	}()
}

// TestHostSockets: which of the host's sockets a policy opens. One in the
// workspace is nobody's own, and an escape socket hides unless it is listed.
func TestHostSockets(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	must(t, os.RemoveAll(l.home+"/.gnupg"))
	paths := []string{l.ws + "/plain", l.public + "/other", l.home + "/.gnupg/S.gpg-agent"}
	for _, path := range paths {
		l.greet(t, path)
	}
	script := append([]string{"/usr/bin/python3", "-c", tryHostSockets}, paths...)
	for name, c := range map[string]struct {
		policy string
		want   string
	}{
		"none":               {`{"write": ["{workspace}"]}`, "EACCES EACCES ENOENT EPERM"},
		"one":                {`{"write": ["{workspace}"], "sockets": ["` + paths[1] + `"]}`, "EACCES host ENOENT EPERM"},
		"an escape socket":   {`{"write": ["{workspace}"], "sockets": ["~/.gnupg/S.gpg-agent"]}`, "EACCES EACCES host EPERM"},
		"all":                {`{"write": ["{workspace}"], "unix_sockets": "all"}`, "host host ENOENT EPERM"},
		"all, and a network": {`{"write": ["{workspace}"], "unix_sockets": "all", "network": {"allow": ["x.example"]}}`, "host host ENOENT EPERM"},
		"all, and an escape socket": {
			`{"write": ["{workspace}"], "unix_sockets": "all", "sockets": ["~/.gnupg/S.gpg-agent"]}`, "host host host EPERM",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := l.wrap(t, launch{policy: c.policy, argv: script})
			if diff := cmp.Diff(c.want, strings.Join(strings.Fields(res.stdout), " ")); diff != "" || res.code != 0 {
				t.Errorf("(-want +got):\n%s\n%v", diff, res)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		if res := l.direct(t, launch{argv: script}); res.stdout != "host\nhost\nhost\ndatagrams\n" {
			t.Errorf("outside not all are reached, so it proves nothing: %v", res)
		}
	})
}

// fillAndWait waits in a connect to a service that accepts nothing, and has a
// signal to handle meanwhile, after which the call goes on.
const fillAndWait = `
import signal, socket, sys
first = socket.socket(socket.AF_UNIX); first.connect(sys.argv[1])
signal.signal(signal.SIGALRM, lambda *_: None); signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.2)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
`

// TestStopWhileConnecting: a stop needs no grace for a command that waits for a
// service of the host's.
func TestStopWhileConnecting(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path, file := l.public+"/full", filepath.Join(l.root, "result.json")
	mkdir(t, l.public)
	service, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(service)
	must(t, unix.Bind(service, &unix.SockaddrUnix{Name: path}))
	must(t, unix.Listen(service, 0)) // which is room for one
	r := l.wrap(t, launch{
		policy: doc{"write": []string{"{workspace}"}, "sockets": []string{path}},
		flags:  []string{"--quiet", "--result", file, "--timeout", "2s", "--grace", "20s"},
		argv:   []string{"/usr/bin/python3", "-c", fillAndWait, path},
	})
	var o outcome
	must(t, json.Unmarshal([]byte(read(t, file)), &o))
	if o.Reason != "timeout" || o.Stop != "term" || r.stderr != "" {
		t.Errorf("%+v: %v", o, r)
	}
}
