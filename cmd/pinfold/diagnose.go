package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"pinfold/doctor"
	"pinfold/policy"
)

// machineCodes are the refusals that a row of doctor's can explain better
// than the launch that met the obstacle.
var machineCodes = []string{ //nolint:gochecknoglobals // a table
	"bwrap_missing", "bwrap_untrusted", "bwrap_broken", "bwrap_too_old", "bwrap_failed",
	"stub_failed", "seccomp_failed", "listen_failed", "privileges_left", "canary_failed",
	"no_root_mount", "launch_failed",
}

// diagnoseTimeout bounds what is asked after a launch has failed.
const diagnoseTimeout = 5 * time.Second

// diagnosed names, in the refusal of a launch that this machine couldn't make,
// the row of doctor that fails and what to type. An error that isn't about the
// machine, or that no row explains, is returned as it is.
func (p *program) diagnosed(ctx context.Context, err error) error {
	if err == nil || isOutcome(err) {
		return err
	}
	r := asRefusal(err)
	switch {
	case errors.Is(err, syscall.EMFILE):
		return tooFewFiles(r, err)
	case errors.Is(err, syscall.EFBIG):
		return tooSmallFiles(r, err)
	}
	if !ofMachine(r) {
		return p.fromInside(err)
	}
	if p.isInside(r) {
		return insideItself(err)
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	var likely []string
	if errors.Is(r, syscall.ENOSYS) {
		likely = []string{"syscall_missing"}
	}
	row, found := doctor.Explain(ctx, p.machine(), likely...)
	if !found {
		return err
	}
	return explained(r, row, err)
}

// tooFewFiles is a launch that ran into its limit of open files, wherever that
// was: each path that a rule names is held by a descriptor.
func tooFewFiles(r *policy.Refusal, err error) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "too_few_files", Subject: r.Subject, Why: r.Why, Err: err,
		Fix: "start it with a higher limit of open files, such as ulimit -n 1024",
	}
}

// fromInside is the refusal of a launch inside of a boundary of pinfold's: what
// it met first there says nothing. Elsewhere it is as it was.
func (p *program) fromInside(err error) error {
	if err == nil || isOutcome(err) || !p.isInside(asRefusal(err)) {
		return err
	}
	return insideItself(err)
}

// isInside reports whether a refusal may be due to where pinfold runs, and
// that is inside of its own boundary.
func (p *program) isInside(r *policy.Refusal) bool {
	return (r.Reason == policy.Unavailable || r.Code == "user_unmapped" || ofMachine(r)) && p.machine().Inside()
}

func insideItself(err error) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: doctor.InsidePinfold, Subject: "pinfold", Err: err,
		Why: "cannot start a sandbox: this is the inside of pinfold's own boundary, where no other can be made",
		Fix: doctor.Outside,
	}
}

// tooSmallFiles is a launch that ran into its limit of the size of files: what
// it hands over is in files in memory.
func tooSmallFiles(r *policy.Refusal, err error) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "too_small_files", Subject: r.Subject, Why: r.Why, Err: err,
		Fix: "start it with a higher limit of the size of files, such as ulimit -f unlimited; limits.file_size is for the command",
	}
}

// ofMachine reports whether a refusal may be this machine's doing. Whatever
// met a system call that isn't there didn't decide anything.
func ofMachine(r *policy.Refusal) bool {
	return r.Reason == policy.Unavailable && slices.Contains(machineCodes, r.Code) || errors.Is(r, syscall.ENOSYS)
}

// isOutcome: a command that ran, an interruption and a wrong command line
// aren't refusals.
func isOutcome(err error) bool {
	var code exitCode
	var usage *usageError
	var stopped *interruption
	return errors.As(err, &code) || errors.As(err, &usage) || errors.As(err, &stopped)
}

// explained is a refusal with a row's words.
func explained(r *policy.Refusal, row doctor.Result, err error) *policy.Refusal {
	e := *r
	e.Err, e.Reason = err, policy.Unavailable
	switch {
	case row.Code == r.Code && strings.HasPrefix(row.Seen, r.Why):
		e.Why = row.Seen
	case row.Code != r.Code:
		e.Why += fmt.Sprintf(" (doctor: %s: %s)", row.Name, row.Seen)
	}
	if fix := oneFix(row.Fix); fix != "" {
		e.Fix = fix
	}
	return &e
}

// oneFix is a row's fix as one line. Its commands belong together; advice that
// follows them doesn't.
func oneFix(fix string) string {
	var commands, advice []string
	for line := range strings.SplitSeq(fix, "\n") {
		if text, isAdvice := strings.CutPrefix(line, "# "); isAdvice {
			advice = append(advice, text)
		} else if line != "" {
			commands = append(commands, line)
		}
	}
	switch {
	case len(commands) == 0:
	case slices.Contains(advice, doctor.AsRoot):
		return doctor.AsRoot + " " + strings.Join(commands, " && ")
	default:
		return strings.Join(commands, " && ")
	}
	return strings.Join(advice, "; ")
}
