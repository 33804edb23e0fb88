package cgroup_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold/bwrap/cgroup"
)

// greeting says Hello as soon as it may be said: systemd's own socket wants
// none, a message bus does.
type greeting struct{ net.Conn }

func (g greeting) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	if err == nil && strings.HasSuffix(string(b), "BEGIN\r\n") {
		_, err = g.Conn.Write(cgroup.HelloMessage())
	}
	return n, err
}

// A message bus reads every message whole, and hangs up on one that isn't
// what its signature says. It has nobody to hand this one to, and says so.
func TestMessageBusTakesTheCall(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("no dbus-daemon")
	}
	socket := filepath.Join(t.TempDir(), "bus")
	cmd := exec.CommandContext(t.Context(), "dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:path="+socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the bus said %q: %v", line, err)
	}
	for name, l := range map[string]cgroup.Limits{"all": limits, "one": {PIDs: 1}, "none": {}} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		err = cgroup.StartScopeOver(greeting{conn}, "pinfold-"+name+".scope", l, []int{1, 2, 3})
		if err == nil || !strings.Contains(err.Error(), "org.freedesktop.systemd1") {
			t.Errorf("%s: got %v, wanted to hear that there is no systemd1", name, err)
		}
		conn.Close()
	}
}

// fakeSystemd answers one connection: message by message, each answer as the
// specification's own encoding rules have it.
type fakeSystemd struct {
	t       *testing.T
	conn    net.Conn
	answers [][]byte
}

func (f *fakeSystemd) run() {
	defer f.conn.Close()
	r := bufio.NewReader(f.conn)
	if line, _ := r.ReadString('\n'); !strings.HasPrefix(line, "\x00AUTH EXTERNAL ") {
		f.t.Errorf("it began with %q", line)
	}
	io.WriteString(f.conn, "OK 0123456789abcdef\r\n") //nolint:errcheck // a pipe to the test
	if line, _ := r.ReadString('\n'); line != "BEGIN\r\n" {
		f.t.Errorf("it went on with %q", line)
	}
	for _, answer := range f.answers {
		var head [16]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		fields, body := binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint32(head[4:])
		if _, err := r.Discard(int(fields+7)/8*8 + int(body)); err != nil {
			return
		}
		if _, err := f.conn.Write(answer); err != nil {
			return
		}
	}
}

// wireText is a string as D-Bus has it, from an aligned place.
func wireText(s string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(s)))
	b = append(append(b, s...), 0)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// wireMessage has one header field of type s and, with a reply, one of type u.
func wireMessage(kind, code byte, value string, reply uint32, body []byte) []byte {
	fields := append([]byte{code, 1, 's', 0}, wireText(value)...)
	for len(fields)%8 != 0 {
		fields = append(fields, 0)
	}
	fields = binary.LittleEndian.AppendUint32(append(fields, 5, 1, 'u', 0), reply)
	m := []byte{'l', kind, 0, 1}
	m = binary.LittleEndian.AppendUint32(m, uint32(len(body)))
	m = binary.LittleEndian.AppendUint32(m, 9)
	m = binary.LittleEndian.AppendUint32(m, uint32(len(fields)))
	m = append(m, fields...)
	for len(m)%8 != 0 {
		m = append(m, 0)
	}
	return append(m, body...)
}

func jobRemoved(unit, result string) []byte {
	body := binary.LittleEndian.AppendUint32(nil, 42)
	body = append(body, wireText("/org/freedesktop/systemd1/job/42")...)
	body = append(append(body, wireText(unit)...), wireText(result)...)
	return wireMessage(4, 3, "JobRemoved", 0, body)
}

func TestScopeJob(t *testing.T) {
	t.Parallel()
	denied := wireMessage(3, 4, "org.freedesktop.DBus.Error.PropertyReadOnly", 1, wireText("Cannot set property OOMPolicy"))
	deniedAgain := wireMessage(3, 4, "org.freedesktop.DBus.Error.AccessDenied", 2, wireText("no"))
	for name, c := range map[string]struct {
		answers [][]byte
		wrong   string
	}{
		"done":                {[][]byte{bytes.Join([][]byte{jobRemoved("else.scope", "failed"), jobRemoved("u.scope", "done")}, nil)}, ""},
		"failed":              {[][]byte{jobRemoved("u.scope", "failed")}, `its job ended as "failed"`},
		"an older one":        {[][]byte{denied, jobRemoved("u.scope", "done")}, ""},
		"refused":             {[][]byte{denied, deniedAgain}, "AccessDenied: no"},
		"it hangs up":         {[][]byte{nil}, "cannot read the answer"},
		"it talks nonsense":   {[][]byte{bytes.Repeat([]byte{0xff}, 32)}, "too long"},
		"a cut-off signal":    {[][]byte{wireMessage(4, 3, "JobRemoved", 0, []byte{1, 0})}, "cannot read the answer"},
		"an error of another": {[][]byte{append(wireMessage(3, 4, "x.y", 77, nil), jobRemoved("u.scope", "done")...)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			f := &fakeSystemd{t: t, conn: theirs, answers: c.answers}
			go f.run()
			_ = ours.SetDeadline(time.Now().Add(20 * time.Second))
			err := cgroup.StartScopeOver(ours, "u.scope", limits, []int{1})
			ours.Close()
			switch {
			case c.wrong == "" && err != nil:
				t.Error(err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("got %v, wanted %q", err, c.wrong)
			}
		})
	}
}
