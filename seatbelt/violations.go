package seatbelt

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"pinfold/event"
)

// A violation is one refusal as the kernel logs it.
type violation struct {
	program   string
	pid       int
	operation string
	target    string
	tag       string // the profile's own message
}

// tagPrefix begins the tag of every run, which the profile has the kernel add
// to each refusal by it. The rest is random: nobody else's refusal has it.
const tagPrefix = "pinfold-"

// tagged reports whether v is of a run with the tag, and whether it says at
// all whose it is: what the kernel refuses by its own rules has no tag.
func (v violation) tagged(tag string) (is, says bool) {
	return v.tag == tag, strings.HasPrefix(v.tag, tagPrefix)
}

// logLine is an entry of log(1) in its ndjson style, as far as it counts. The
// text of a message anybody can write; who sent it nobody else can.
type logLine struct {
	Sender  string `json:"senderImagePath"`
	Process string `json:"processImagePath"`
	PID     int    `json:"processID"`
	Message string `json:"eventMessage"`
}

// The kernel's sandbox, as the sender of a log entry.
const (
	kernelImage  = "/kernel"
	sandboxImage = "/System/Library/Extensions/Sandbox.kext/Contents/MacOS/Sandbox"
)

// logPredicate asks log(1) for the kernel's refusals alone.
const logPredicate = `processID == 0 AND senderImagePath == "` + sandboxImage + `" AND eventMessage CONTAINS "deny("`

// message is "Sandbox: cat(4711) deny(1) file-read-data /private/etc/x"; a
// program's name may hold blanks and brackets. It is compiled when it is needed,
// since every start of pinfold would wait for it.
var message = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^Sandbox: (.*)\((\d+)\) deny\(\d+\) ([a-z][a-z0-9*-]*)(?: (.*))?$`)
})

// parseViolation reads one line of the log. What isn't a refusal of the
// kernel's own is none: ok is false.
func parseViolation(line []byte) (v violation, ok bool) {
	var l logLine
	if json.Unmarshal(line, &l) != nil || l.Sender != sandboxImage || l.Process != kernelImage || l.PID != 0 {
		return violation{}, false
	}
	text, tag, _ := strings.Cut(l.Message, "\n")
	m := message().FindStringSubmatch(text)
	if m == nil {
		return violation{}, false
	}
	pid, err := strconv.Atoi(m[2])
	if err != nil {
		return violation{}, false
	}
	return violation{program: m[1], pid: pid, operation: m[3], target: m[4], tag: strings.TrimSpace(tag)}, true
}

// noise is what every program is refused and nobody misses.
func (v violation) noise() bool {
	switch {
	case v.operation == "file-read-metadata", v.operation == "file-test-existence":
		return true // a look at a name, which programs do all the time
	case v.target == "com.apple.diagnosticd", v.target == "com.apple.analyticsd":
		return true
	}
	return false
}

// event is the violation as an event: what kind of thing was refused.
func (v violation) event() event.Event {
	e := event.Event{
		Kind: event.Boundary, Action: event.Denied, Target: v.target, Reason: v.operation,
		PID: v.pid, Program: v.program,
	}
	switch {
	case strings.HasPrefix(v.operation, "file-"), strings.HasPrefix(v.operation, "process-exec"):
		e.Kind = event.Path
	case strings.HasPrefix(v.operation, "network-") && strings.HasPrefix(v.target, "/"):
		e.Kind = event.Socket
	case strings.HasPrefix(v.operation, "network-"):
		e.Kind = event.Network
	case v.operation == "signal":
		e.Kind = event.Signal
	}
	return e
}
