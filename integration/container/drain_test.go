//go:build linux

package container_test

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// fullSender sends to its argument, a port of its loopback, as much as is taken
// at once, says how much that was, and ends.
const fullSender = `#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
int main(int argc, char **argv) {
	static char b[65536];
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval t = {.tv_usec = 300000};
	long sum = 0;
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a) < 0) { perror("connect"); return 1; }
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	for (ssize_t n; sum < 30000000 && (n = send(s, b, sizeof b, MSG_NOSIGNAL)) > 0;) sum += n;
	printf("%ld\n", sum);
	return 0;
}
`

// TestWhatWasSentArrives: a command that ends right after it has sent
// something has sent it.
func TestWhatWasSentArrives(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		total := make(chan int, 1)
		go func() { total <- readLate(ln) }()
		port := ln.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener's
		got := p.wrap(map[string]any{"network": map[string]any{"host_ports": []int{port}}}, fmt.Sprintf("%s %d", p.compile("sender", fullSender), port))
		if got.code != 0 {
			t.Fatalf("%v", got)
		}
		if n := <-total; fmt.Sprintln(n) != got.stdout {
			t.Errorf("%d bytes arrived: %v", n, got)
		}
	})
}

// readLate takes one connection, and begins to read when its client has ended.
func readLate(ln net.Listener) (n int) {
	c, err := ln.Accept()
	if err != nil {
		return -1
	}
	defer c.Close()
	b := make([]byte, 128<<10)
	for time.Sleep(time.Second); err == nil; time.Sleep(time.Millisecond) {
		var k int
		k, err = c.Read(b)
		n += k
	}
	return n
}
