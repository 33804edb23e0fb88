package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// TestBodiesOfAnySizeTakeNoMemory: a body is passed on as it comes, whichever
// way it goes and however its end is told. Alone: the heap is everybody's.
// PINFOLD_BODY is its size; what is meant are some 10 GiB, which take a minute.
func TestBodiesOfAnySizeTakeNoMemory(t *testing.T) {
	size := int64(64 << 20)
	if s := os.Getenv("PINFOLD_BODY"); s != "" {
		var err error
		if size, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	l := newLab(t, labConfig{allow: []string{"web.example", "raw.example"}})
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n > 0 || err != nil {
			fmt.Fprintln(w, n, err)
			return
		}
		if r.URL.Path == "/sized" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		io.CopyN(w, zeros{}, size)
	})
	l.web("web.example", web)
	l.raw("raw.example", 7, func(c net.Conn) { io.CopyN(c, zeros{}, size) })
	for name, transfer := range map[string]func() (int64, error){
		"sized":   func() (int64, error) { return l.download("http://web.example/sized") },
		"chunked": func() (int64, error) { return l.download("http://web.example/chunked") },
		"tunnel": func() (int64, error) {
			conn, br := l.connect("raw.example:7")
			conn.SetDeadline(time.Time{})
			return io.Copy(io.Discard, br)
		},
		"upload":         func() (int64, error) { return l.upload(size, size) },
		"chunked upload": func() (int64, error) { return l.upload(size, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			before, ended := heap(), make(chan struct{})
			var most atomic.Int64
			go func() {
				for tick := time.NewTicker(20 * time.Millisecond); ; {
					select {
					case <-ended:
						return
					case <-tick.C:
						most.Store(max(most.Load(), heap()))
					}
				}
			}()
			n, err := transfer()
			close(ended)
			if n != size || err != nil {
				t.Errorf("%d of %d bytes: %v", n, size, err)
			}
			if grown := most.Load() - before; grown > 16<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// patient is the client without a limit of time.
func (l *lab) patient() *http.Client {
	c := l.client()
	c.Timeout = 0
	return c
}

func (l *lab) download(url string) (int64, error) {
	resp, err := l.patient().Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

// upload sends size bytes, of which told are announced, and returns how many
// the server says it got.
func (l *lab) upload(size, told int64) (int64, error) {
	req, err := http.NewRequest(http.MethodPut, "http://web.example/", io.LimitReader(zeros{}, size))
	if err != nil {
		return 0, err
	}
	req.ContentLength = told
	resp, err := l.patient().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var n int64
	_, err = fmt.Fscan(resp.Body, &n)
	return n, err
}
