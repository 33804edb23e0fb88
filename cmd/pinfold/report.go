package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"pinfold/bwrap"
	"pinfold/policy"
)

// finish reports an error and turns it into the exit code.
func (p *program) finish(err error) int {
	var code exitCode
	var usage *usageError
	var stopped *interruption
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &stopped):
		fmt.Fprintf(p.Err, "pinfold: %s\n", oneLine(stopped.Error()))
		return stopped.ExitCode()
	case errors.As(err, &usage):
		p.printUsage(usage)
		return p.usageCode
	}
	p.printFailure(err)
	return p.failCode
}

// printFailure prints why a command didn't work. Where a launch was asked for
// that is a refusal, whatever the error: nothing ran.
func (p *program) printFailure(err error) {
	var r *policy.Refusal
	var bad policy.ParseErrors
	switch {
	case errors.As(err, &bad) && !p.launches:
		p.printParseErrors(bad)
	case errors.As(err, &r) || p.launches:
		p.printRefusal(asRefusal(err))
	case p.format == "json":
		p.printJSON(map[string]string{"reason": "failed", "why": err.Error()})
	default:
		fmt.Fprintf(p.Err, "pinfold: %s\n", oneLine(err.Error()))
	}
}

// asRefusal returns the refusal in err. An error that is none of ours to
// decide about still means that nothing ran.
func asRefusal(err error) *policy.Refusal {
	var r *policy.Refusal
	var bad policy.ParseErrors
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &bad):
		return bad.Refusal()
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Op == "write" && at.Path == os.Stdout.Name() {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "output_unwritable", Subject: at.Path, Err: err,
			Why: "cannot write to standard output: " + at.Err.Error(), Fix: "see to where it goes",
		}
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "launch_failed", Why: err.Error(), Err: err,
		Fix: "see what pinfold doctor says about this machine",
	}
}

// printParseErrors prints all that is wrong with a policy, a line each, as
// editors read it.
func (p *program) printParseErrors(bad policy.ParseErrors) {
	if p.format == "json" {
		p.printJSON(bad.Refusal())
		return
	}
	for _, e := range bad {
		fmt.Fprintf(p.Err, "%s\n", oneLine(e.Error()))
	}
}

// printRefusal prints the two lines of a refusal, or one JSON object.
func (p *program) printRefusal(r *policy.Refusal) {
	if p.format == "json" {
		p.printJSON(r)
		return
	}
	text := fmt.Sprintf("pinfold: %s\n", oneLine(r.Error()))
	if r.Fix != "" {
		text += fmt.Sprintf("hint: %s\n", oneLine(r.Fix))
	}
	fmt.Fprint(p.Err, text)
}

// printNotRun says why a command didn't run though nothing was refused.
func (p *program) printNotRun(e bwrap.Exit, why string) {
	if p.format == "json" {
		p.printJSON(map[string]string{"reason": string(e.Reason), "code": notRunCode(e), "why": why})
		return
	}
	fmt.Fprintf(p.Err, "pinfold: %s\n", oneLine(why))
}

// notRunCode is the code of a command that couldn't be run.
func notRunCode(e bwrap.Exit) string {
	switch e.Code {
	case bwrap.CodeNotFound:
		return "not_found"
	case bwrap.CodeNotExecutable:
		return "not_executable"
	}
	return "not_run"
}

func (p *program) printUsage(u *usageError) {
	if p.format == "json" {
		p.printJSON(map[string]string{"reason": "usage", "code": "bad_usage", "why": u.why, "fix": u.fix})
		return
	}
	fmt.Fprintf(p.Err, "pinfold: %s\nhint: %s\n", oneLine(u.why), oneLine(u.fix))
}

func (p *program) printJSON(v any) {
	enc := json.NewEncoder(p.Err)
	enc.SetEscapeHTML(false)
	// The stream is the last resort: there is nowhere to report its failure.
	_ = enc.Encode(v)
}

// notice prints one line that --quiet hides.
func (p *program) notice(format string, args ...any) {
	if !p.quiet {
		p.complain(format, args...)
	}
}

// complain prints one line that --quiet doesn't hide: what went wrong around a
// command whose exit code is passed on all the same.
func (p *program) complain(format string, args ...any) {
	fmt.Fprintf(p.Err, "pinfold: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// maxLine bounds a line for people, of which lineEnd bytes are the end: the
// longest path there may be (4,095 bytes) is whole.
const (
	maxLine = 5000
	lineEnd = 500
)

// oneLine makes text safe for a terminal and keeps it on one line. Its middle
// is left out where it is longer than anybody reads.
func oneLine(s string) string { return shortened(policy.Printable(s)) }

func shortened(line string) string {
	const gap = "…"
	if len(line) <= maxLine {
		return line
	}
	end := len(line) - lineEnd
	return strings.ToValidUTF8(line[:maxLine-lineEnd-len(gap)], "") + gap + strings.ToValidUTF8(line[end:], "")
}
