//go:build linux

package integration_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// sendAndEnd sends as much as the queues on the way take, says how much that
// was, and ends at once, as `logger` and many a hook do.
const sendAndEnd = `
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
if sys.argv[3] == "connect":
    s.sendall(b"CONNECT %s HTTP/1.1\r\n\r\n" % sys.argv[4].encode())
    if b" 200 " not in s.recv(4096): sys.exit("refused")
s.settimeout(0.3)
n = 0
try:
    while n < 30000000: n += s.send(bytes(65536))
except TimeoutError: pass
print(n)
`

// slow is a server on the host's loopback that takes its time.
func slow(t *testing.T) (address string, got <-chan int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	total := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 128<<10)
		time.Sleep(time.Second) // until the client has ended
		for n := 0; ; {
			k, err := c.Read(b)
			if n += k; err != nil {
				if err != io.EOF {
					n = -1
				}
				total <- n
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return l.Addr().String(), total
}

// TestWhatWasSentArrives: a command that ends right after it has sent
// something has sent it, as it would have without a boundary.
func TestWhatWasSentArrives(t *testing.T) {
	t.Parallel()
	python := []string{"python3", "-c", sendAndEnd}
	for name, way := range map[string]struct {
		network func(open, port string) doc
		argv    func(open, host, port string) []string
	}{
		"no sandbox": {nil, func(_, host, port string) []string { return append(python, host, port, "plain") }},
		"a host port": {
			func(_, port string) doc { n, _ := strconv.Atoi(port); return doc{"host_ports": []int{n}} },
			func(_, _, port string) []string { return append(python, "127.0.0.1", port, "plain") },
		},
		"CONNECT": {
			func(open, _ string) doc { return doc{"allow": []string{open}, "mode": "proxy"} },
			func(open, _, _ string) []string {
				return []string{"sh", "-c", `p=${http_proxy#http://}; p=${p%/}; exec python3 -c "$1" "${p%:*}" "${p##*:}" connect "$2"`, "sh", sendAndEnd, open}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			open, got := slow(t)
			host, port, err := net.SplitHostPort(open)
			must(t, err)
			argv := way.argv(open, host, port)
			var said string
			if way.network == nil {
				out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
				must(t, err)
				said = string(out)
			} else {
				p := workspaceOnly()
				p["network"] = way.network(open, port)
				res := l.wrap(t, launch{policy: p, argv: argv})
				if res.code != 0 {
					t.Fatalf("got %v", res)
				}
				said = res.stdout
			}
			if n := <-got; fmt.Sprintln(n) != said {
				t.Errorf("%d bytes arrived of %s", n, said)
			}
		})
	}
}
