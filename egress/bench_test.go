package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

const gib = 1 << 30

// source sends 1 GiB to whoever sends a line, as fast as it can, behind an
// HTTP head where the line is a request's.
func source(b testing.TB) string {
	block := make([]byte, 256<<10)
	return rawServer(b, func(c net.Conn) {
		br := bufio.NewReader(c)
		line, _ := br.ReadString('\n')
		for l := line; strings.HasPrefix(line, "GET") && l != "\r\n" && l != ""; {
			l, _ = br.ReadString('\n')
		}
		if strings.HasPrefix(line, "GET") {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", gib)
		}
		for range gib / len(block) {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
}

// sink reads everything with a buffer as big as a client's would be.
func sink(b testing.TB, c io.Reader) {
	buf := make([]byte, 256<<10)
	var n int64
	for {
		m, err := c.Read(buf)
		if n += int64(m); err != nil {
			break
		}
	}
	if n < gib {
		b.Fatalf("got %d bytes, want %d", n, gib)
	}
}

// BenchmarkDownload moves 1 GiB: compare MB/s of the ways with "direct".
func BenchmarkDownload(b *testing.B) {
	addr := source(b)
	l := newLab(b, labConfig{allow: []string{"127.0.0.1"}, real: true})
	ways := []struct {
		name string
		open func() io.Reader
	}{
		{"direct", func() io.Reader {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { c.Close() })
			io.WriteString(c, "x\n")
			return c
		}},
		{"connect", func() io.Reader {
			c, br := l.connect(addr)
			if br.Buffered() > 0 {
				b.Fatal("bytes came too soon")
			}
			io.WriteString(c, "x\n")
			return c
		}},
		{"socks5", func() io.Reader {
			c := l.dial()
			_, port, _ := net.SplitHostPort(addr)
			p, _ := strconv.Atoi(port)
			c.Write([]byte{5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, byte(p >> 8), byte(p)})
			io.ReadFull(c, make([]byte, 12))
			io.WriteString(c, "x\n")
			return c
		}},
		{"http", func() io.Reader {
			c := l.dial()
			fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", addr, addr)
			return c
		}},
	}
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			b.SetBytes(gib)
			for b.Loop() {
				sink(b, w.open())
			}
		})
	}
}

// BenchmarkSmallRequests is one request after another on one connection.
func BenchmarkSmallRequests(b *testing.B) {
	l := newLab(b, labConfig{allow: []string{"127.0.0.1"}, real: true})
	ln := listen(b)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })}
	go s.Serve(ln)
	b.Cleanup(func() { s.Close() })
	target := "http://" + ln.Addr().String() + "/"
	direct := &http.Client{Transport: &http.Transport{}}
	b.Cleanup(direct.CloseIdleConnections)
	for name, c := range map[string]*http.Client{"direct": direct, "proxied": l.client()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				resp, err := c.Get(target)
				body(b, resp, err)
			}
		})
	}
}

// BenchmarkTunnelMemory reports what one idle tunnel costs the proxy: both
// ends of the test live in this process too, but hold no buffers.
func BenchmarkTunnelMemory(b *testing.B) {
	addr := rawServer(b, func(c net.Conn) { io.Copy(io.Discard, c) })
	for b.Loop() {
		l := newLab(b, labConfig{allow: []string{"127.0.0.1"}, real: true})
		const tunnels = 200
		before := rss(b)
		for range tunnels {
			l.connect(addr)
		}
		b.ReportMetric(float64(rss(b)-before)/tunnels, "rss-bytes/tunnel")
	}
}

func rss(b testing.TB) int64 {
	b.Helper()
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip("no /proc")
	}
	fields := strings.Fields(string(data))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
