package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"pinfold/egress"
)

// patient is a server that reads only once it may.
func patient(l *lab, name string) (read chan<- bool, got <-chan int64) {
	may, total := make(chan bool), make(chan int64, 1)
	l.raw(name, 9000, func(c net.Conn) {
		if <-may {
			n, _ := io.Copy(io.Discard, c)
			total <- n
		}
	})
	return may, total
}

// sendAndGo is a client that sends through a tunnel as much as all queues on the
// way take, and ends.
func sendAndGo(t *testing.T, l *lab, name string) (sent int64) {
	t.Helper()
	conn, _ := l.connect(name + ":9000")
	sent = fill(t, conn)
	conn.Close()
	return sent
}

func fill(t *testing.T, conn net.Conn) (sent int64) {
	t.Helper()
	for b := make([]byte, 64<<10); ; {
		conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := conn.Write(b)
		sent += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return sent
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What a client sent before it ended arrives, though the proxy is closed next.
// Without the drain, the control, it doesn't.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, drain := range []bool{true, false} {
		l := newLab(t, labConfig{allow: []string{"sink.example:9000"}})
		read, got := patient(l, "sink.example")
		sent := sendAndGo(t, l, "sink.example")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if drain {
				l.server.Drain(t.Context())
			}
			l.server.Close()
		}()
		if !drain {
			<-done
		}
		read <- true
		if n := <-got; (n == sent) != drain {
			t.Errorf("drained %v: %d of %d bytes arrived", drain, n, sent)
		}
		<-done
	}
}

// A server that takes nothing doesn't keep a run from ending, nor does one that
// has all and says nothing, and who asks for the end needn't wait at all.
func TestDrainGivesUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"sink.example:9000"}})
	read, _ := patient(l, "sink.example")
	defer func() { read <- false }()
	sendAndGo(t, l, "sink.example")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	l.server.Drain(ctx)
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("cancelled, it took %v", took)
	}
	l.server.Drain(t.Context())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A tunnel that is open while nothing is on its way is no reason to wait.
func TestDrainOfNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"sink.example:9000"}})
	l.raw("sink.example", 9000, func(c net.Conn) { io.Copy(io.Discard, c); io.Copy(io.Discard, c) })
	conn, _ := l.connect("sink.example:9000")
	conn.Close()
	began := time.Now()
	l.server.Drain(t.Context())
	if took := time.Since(began); took > 900*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

// What a server inside has said goes out to its client.
func TestDrainInward(t *testing.T) {
	t.Parallel()
	inside, theirs := pipe(t)
	outside, client := pipe(t)
	var o egress.Outflow
	relayed := make(chan int64, 1)
	go func() {
		_, down, _ := o.Relay(client, theirs, time.Minute, true, nil)
		relayed <- down
	}()
	sent := fill(t, inside)
	inside.Close()
	got := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, outside)
		got <- n
		outside.Close()
	}()
	o.Drain(t.Context())
	if n := <-got; n != sent {
		t.Errorf("%d bytes came, want %d", n, sent)
	}
	if n := <-relayed; n != sent {
		t.Errorf("%d bytes were carried, want %d", n, sent)
	}
}

// pipe is a TCP connection on loopback.
func pipe(t *testing.T) (one, other net.Conn) {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	one, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close() })
	return one, other
}
