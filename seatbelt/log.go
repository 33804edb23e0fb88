package seatbelt

import (
	"bufio"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
)

// logProgram is log(1); by its full name, since zsh has a builtin of that name
// and PATH may have another.
const logProgram = "/usr/bin/log"

// The bounds of what is taken from the log: a hostile command makes as many
// refusals as it likes.
const (
	maxViolations = 1000
	maxLogLine    = 64 << 10
	// logLate is how long after the command's end its last refusals are
	// waited for.
	logLate = 300 * time.Millisecond
)

// readLog makes events of what the kernel refuses the run, until the run is
// over. It is a service, not a part of the boundary: log(1) begins a moment
// after the command does, drops entries under load, and only an administrator
// may read the stream.
func (p *Process) readLog(w *watcher) { p.readLogOf(w, logProgram) }

func (p *Process) readLogOf(w *watcher, program string) {
	cmd := exec.Command(program, "stream", "--style", "ndjson", "--level", "default", "--predicate", logPredicate)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the command's
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.unreported(err.Error())
		return
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-w.quit:
			timer := time.NewTimer(logLate) // the log tells no end
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ended:
			}
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		case <-ended:
		}
	}()
	p.takeLines(w, bufio.NewReaderSize(out, maxLogLine))
	close(ended)
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if err := cmd.Wait(); err != nil && !over(w) {
		p.unreported(err.Error())
	}
}

func over(w *watcher) bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// takeLines reports each refusal of the run once.
func (p *Process) takeLines(w *watcher, r *bufio.Reader) {
	type key struct{ operation, target string }
	seen := map[key]bool{}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && len(line) < maxLogLine {
			return // its end; a line that is too long is passed over
		}
		v, ok := parseViolation(line)
		if !ok || v.noise() || !p.isOurs(w, v) {
			continue
		}
		if k := (key{v.operation, v.target}); !seen[k] && len(seen) < maxViolations {
			seen[k] = true
			e := v.event()
			e.Time, e.Run = time.Now(), p.o.Run
			p.o.Events.Emit(e)
		}
	}
}

// isOurs: by the tag, since a process may have ended before its refusal is
// read; what has none, by the process.
func (p *Process) isOurs(w *watcher, v violation) bool {
	is, says := v.tagged(p.tag)
	return is || !says && w.has(v.pid)
}

// unreported says that refusals can't be read.
func (p *Process) unreported(why string) {
	p.o.Events.Emit(event.Event{
		Time: time.Now(), Run: p.o.Run, Kind: event.Boundary, Action: event.Noticed,
		Target: "violations", Reason: "log_unreadable", Rule: why,
	})
}
