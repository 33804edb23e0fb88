package egress_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Nothing is left of flows whose clients died at any moment: before they
// arrived, while the server was dialled, and in the middle of what they said.
func TestKilledFlows(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 1_000
	}
	if n, err := strconv.Atoi(os.Getenv("PINFOLD_STORM")); err == nil {
		total = n
	}
	l := newLab(t, labConfig{allow: []string{"api.example"}})
	l.raw("api.example", 443, func(c net.Conn) { io.Copy(c, c) })
	l.raw("api.example", 80, func(c net.Conn) { io.Copy(c, c) })
	c := newCaptured(t, l)
	addr, _ := c.address("api.example")
	killOne(c, netip.AddrPortFrom(addr, 80)) // what the runtime opens for itself
	settle(t, c)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	var wg sync.WaitGroup
	began := time.Now()
	for range 32 {
		wg.Go(func() {
			for range total / 32 {
				killOne(c, netip.AddrPortFrom(addr, []uint16{80, 443}[rand.IntN(2)]))
			}
		})
	}
	wg.Wait()
	t.Logf("%d flows in %v", total, time.Since(began))
	settle(t, c)
	t.Logf("settled after %v", time.Since(began))
	wait(t, "the goroutines ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	wait(t, "the descriptors were closed", func() bool {
		runtime.GC() // it keeps a few pipes of splice(2) until then
		return openFiles(t) <= files
	})
}

// killOne is a client that is killed: its socket is closed with all that was
// under way.
func killOne(c *captured, to netip.AddrPort) {
	r := c.tr.Route(to, true, nobody)
	conn, err := net.Dial("tcp", c.flows)
	if err != nil {
		return
	}
	defer conn.Close()
	tcp := conn.(*net.TCPConn)
	if rand.IntN(2) == 0 {
		tcp.SetLinger(0)
	}
	if rand.IntN(20) != 0 || c.tr.Active() > 500 {
		r.Started(conn.LocalAddr().(*net.TCPAddr).AddrPort())
	}
	switch rand.IntN(3) {
	case 0:
		conn.Write([]byte{22, 3, 1})
	case 1:
		conn.Write([]byte("hello"))
		conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		conn.Read(make([]byte, 5))
	}
}

func settle(t *testing.T, c *captured) {
	t.Helper()
	wait(t, "the flows ended", func() bool { return c.tr.Active() == 0 })
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("descriptors can't be listed here")
	}
	return len(list)
}
