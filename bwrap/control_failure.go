package bwrap

import (
	"errors"
	"fmt"
	"strings"

	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// errClosed is the end of the conversation with the stub: the command runs,
// or the stub is no more.
var errClosed = errors.New("the stub has closed the control socket")

// stepFixes say what to do in this tier.
var stepFixes = map[string]string{
	"chdir_failed": "choose another --chdir, or make the directory accessible to the caller",
}

const doctorFix = supervise.DoctorFix

// failureError turns the stub's Failed packet into the error of the launch: a
// refusal, or, when only the command itself can't be executed, what a shell
// would answer.
func failureError(f *wire.Failure) error {
	if f.Step != wire.StepExec {
		return supervise.Refusal(f, stepFixes)
	}
	code := CodeNotExecutable
	if supervise.NotFound(f) {
		code = CodeNotFound
	}
	return &NotRunError{
		Exit: Exit{Code: code, Reason: Refused},
		Why:  "cannot run the command: " + supervise.FailureText(f), Err: supervise.FailureErrno(f),
	}
}

// bwrapError is for a bubblewrap that ended before the stub said anything.
// What it printed is shown, cut and cleaned, and decides nothing.
func bwrapError(path, how, said string) error {
	why := fmt.Sprintf("cannot start bubblewrap: it %s", how)
	if said = firstLines(said); said != "" {
		why += ", saying " + said
	}
	return &policy.Refusal{Reason: policy.Unavailable, Code: "bwrap_failed", Subject: path, Why: why, Fix: doctorFix}
}

// stubError is for a stub that broke off, or said what it shouldn't.
func stubError(what string, cause error, said string) error {
	why := "cannot start the command: " + what
	if cause != nil && !errors.Is(cause, errClosed) {
		why += ": " + cause.Error()
	}
	if said = firstLines(said); said != "" {
		why += ", saying " + said
	}
	return &policy.Refusal{Reason: policy.Unavailable, Code: "stub_failed", Subject: StubPath, Why: why, Fix: doctorFix, Err: cause}
}

// firstLines is the beginning of a text as one quoted line, or "".
func firstLines(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if s = supervise.Printable(s); s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}
