package seatbelt

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"pinfold/event"
	"pinfold/plan"
)

// sample lines of log(1), written after its documented form and public
// reports; none was recorded here.
const (
	sampleOpen  = `{"messageType":"Error","subsystem":"","category":"","userID":0,"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","threadID":75214711,"timestamp":"2026-09-05 23:01:34.988314-0500","eventMessage":"Sandbox: cat(4711) deny(1) file-read-data \/Users\/ann\/.ssh\/id rsa"}`
	sampleMach  = `{"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","eventMessage":"Sandbox: My App (x)(4711) deny(1) mach-lookup com.apple.SecurityServer\ntag of a profile"}`
	sampleFork  = `{"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","eventMessage":"Sandbox: sh(4711) deny(1) job-creation"}`
	sampleNet   = `{"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","eventMessage":"Sandbox: node(4711) deny(1) network-outbound 203.0.113.7:443"}`
	sampleExec  = `{"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","eventMessage":"Sandbox: sh(4711) deny(1) process-exec \/private\/tmp\/x"}`
	sampleAgent = `{"processID":0,"processImagePath":"\/kernel","senderImagePath":"\/System\/Library\/Extensions\/Sandbox.kext\/Contents\/MacOS\/Sandbox","eventMessage":"Sandbox: ssh(4711) deny(1) network-outbound \/private\/tmp\/agent.sock"}`
)

// tagged is a line of a process whose profile has a message.
func tagged(line, pid, tag string) string {
	return strings.Replace(strings.Replace(line, "4711", pid, 1), `"}`, `\n`+tag+`"}`, 1)
}

func TestParseViolation(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]event.Event{
		sampleOpen:  {Kind: event.Path, Target: "/Users/ann/.ssh/id rsa", Reason: "file-read-data", Program: "cat"},
		sampleMach:  {Kind: event.Boundary, Target: "com.apple.SecurityServer", Reason: "mach-lookup", Program: "My App (x)"},
		sampleFork:  {Kind: event.Boundary, Reason: "job-creation", Program: "sh"},
		sampleNet:   {Kind: event.Network, Target: "203.0.113.7:443", Reason: "network-outbound", Program: "node"},
		sampleAgent: {Kind: event.Socket, Target: "/private/tmp/agent.sock", Reason: "network-outbound", Program: "ssh"},
	} {
		v, ok := parseViolation([]byte(line))
		want.Action, want.PID = event.Denied, 4711
		if got := v.event(); !ok || got != want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", line, got, ok, want)
		}
	}
	for name, line := range map[string]string{
		"the stream's first line": `Filtering the log data using "processID == 0"`,
		"another sender":          strings.ReplaceAll(sampleOpen, "Sandbox.kext", "Other.kext"),
		"a program that pretends": strings.ReplaceAll(sampleOpen, `"processID":0`, `"processID":99`),
		"another process":         strings.ReplaceAll(sampleOpen, `\/kernel`, `\/usr\/bin\/x`),
		"allowed":                 strings.ReplaceAll(sampleOpen, "deny(1)", "allow"),
		"no sender":               `{"eventMessage":"Sandbox: cat(4711) deny(1) file-read-data /x"}`,
		"cut off":                 sampleOpen[:len(sampleOpen)-9],
		"empty":                   "",
	} {
		if v, ok := parseViolation([]byte(line)); ok {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func FuzzParseViolation(f *testing.F) {
	f.Add([]byte(sampleOpen))
	f.Add([]byte(sampleMach))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseViolation(b); ok && (v.operation == "" || strings.Contains(v.target, "\n")) {
			t.Errorf("%q: got %+v", b, v)
		}
	})
}

// TestViolations: the run's refusals become events, each once; others' don't.
func TestViolations(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pid := "4711"
	lines := strings.Join([]string{
		"Filtering", sampleOpen, sampleOpen, strings.ReplaceAll(sampleMach, pid, "4712"),
		strings.ReplaceAll(sampleOpen, "file-read-data", "file-read-metadata"), sampleNet,
		// One that ended before it was seen, and another run's with a pid of ours.
		tagged(sampleExec, "4713", "pinfold-OURS"), tagged(sampleExec, "4711", "pinfold-THEIRS"),
	}, "\n")
	must(t, os.WriteFile(filepath.Join(l.dir, "lines"), []byte(lines+"\n"), 0o600))
	p := &Process{o: StartOptions{Events: l.events, Run: "r"}, tag: "pinfold-OURS"}
	w := &watcher{root: plan.Process{PID: 1 << 30}, quit: make(chan struct{}), known: map[plan.Process]bool{}, pids: map[int]bool{4711: true}}
	p.readLogOf(w, l.script("log", "cat "+l.dir+"/lines"))
	got := l.events.all()
	if len(got) != 3 || got[0].Reason != "file-read-data" || got[1].Reason != "network-outbound" || got[0].Run != "r" || got[0].Time.IsZero() ||
		got[2].Reason != "process-exec" || got[2].PID != 4713 {
		t.Errorf("got %+v", got)
	}
}

// TestNoViolations: a log that can't be read is one event, not an error; one
// that doesn't end is ended with the run.
func TestNoViolations(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"refused": "echo 'log: must be admin' >&2; exit 77", "missing": ""} {
		l := newLab(t)
		program := filepath.Join(l.dir, "missing")
		if text != "" {
			program = l.script("log", text)
		}
		p := &Process{o: StartOptions{Events: l.events}}
		p.readLogOf(&watcher{quit: make(chan struct{})}, program)
		if got := l.events.all(); len(got) != 1 || got[0].Reason != "log_unreadable" || got[0].Action != event.Noticed {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	l := newLab(t)
	p := &Process{o: StartOptions{Events: l.events}}
	w := &watcher{quit: make(chan struct{})}
	close(w.quit)
	began := time.Now()
	p.readLogOf(w, l.script("endless", "sleep 60"))
	if d := time.Since(began); d > 20*time.Second || len(l.events.all()) > 0 {
		t.Errorf("it took %v, and there are %v", d, l.events.all())
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	root := plan.Process{PID: 10, StartTicks: 5}
	row := func(pid, ppid, pgid int, start uint64) Proc {
		return Proc{PID: pid, PPID: ppid, PGID: pgid, Start: start}
	}
	for name, c := range map[string]struct {
		table []Proc
		known map[plan.Process]bool
		want  []int
	}{
		"children":     {[]Proc{row(12, 11, 12, 7), row(11, 10, 10, 6), row(10, 2, 10, 5), row(9, 2, 9, 5)}, nil, []int{12, 11, 10}},
		"orphans":      {[]Proc{row(11, 1, 10, 6), row(12, 1, 12, 6)}, nil, []int{11}},
		"known":        {[]Proc{row(12, 1, 12, 6), row(13, 12, 12, 8)}, map[plan.Process]bool{{PID: 12, StartTicks: 6}: true}, []int{12, 13}},
		"known reused": {[]Proc{row(12, 1, 12, 9)}, map[plan.Process]bool{{PID: 12, StartTicks: 6}: true}, nil},
		"root reused":  {[]Proc{row(10, 1, 10, 99), row(11, 10, 10, 100)}, nil, nil},
		"old group":    {[]Proc{row(11, 1, 10, 4)}, nil, nil},
		"init's":       {[]Proc{row(1, 0, 1, 0), row(11, 1, 11, 9)}, map[plan.Process]bool{{PID: 1}: true}, []int{1}},
	} {
		var got []int
		for _, p := range descendants(c.table, root, c.known) {
			got = append(got, p.PID)
		}
		if len(got) != len(c.want) || strings.Trim(strings.Join(strings.Fields(fmt.Sprint(got)), ","), "[]") != strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.want)), ","), "[]") {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestTerminal: the command has a terminal that isn't the operator's, of its
// size; what is typed reaches it, and the operator's is given back.
func TestTerminal(t *testing.T) {
	t.Parallel()
	outer, tty, err := pty.Open()
	must(t, err)
	defer outer.Close()
	defer tty.Close()
	must(t, pty.Setsize(outer, &pty.Winsize{Rows: 33, Cols: 99}))
	l := newLab(t, "sh", "-c", `stty size; [ "$(tty)" = "$OUTER" ] && echo same; tty -s </dev/tty && echo controlling; read x; echo "got $x"; test -t 2 && echo also`)
	l.in.env = append(l.in.env, "OUTER="+tty.Name())
	o := l.options()
	o.Stdin, o.Stdout, o.Stderr = tty, tty, tty
	p, err := start(t.Context(), l.tool, l.translate(), o)
	must(t, err)
	outer.WriteString("hello\r")
	seen := make(chan string)
	go func() {
		var b bytes.Buffer
		buf := make([]byte, 1024)
		for !strings.Contains(b.String(), "also") {
			n, err := outer.Read(buf)
			if err != nil {
				break
			}
			b.Write(buf[:n])
		}
		seen <- b.String()
	}()
	exit, err := p.Wait()
	must(t, err)
	text := <-seen
	for _, want := range []string{"33 99", "controlling", "got hello", "also"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "same") || exit.Code != 0 {
		t.Errorf("got %q, %+v", text, exit)
	}
}
