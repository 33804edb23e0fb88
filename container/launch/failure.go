package launch

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"pinfold/policy"
	"pinfold/stub/wire"
)

// stepCodes are the refusals that a stub's failed step stands for, as in the
// process tier.
var stepCodes = map[string]string{ //nolint:gochecknoglobals // a table
	wire.StepListen:     "listen_failed",
	wire.StepTerminal:   "terminal_failed",
	wire.StepFilter:     "seccomp_failed",
	wire.StepPrivileges: "privileges_left",
	wire.StepCheck:      "boundary_mismatch",
	wire.StepDir:        "chdir_failed",
	wire.StepLimit:      "limit_failed",
	wire.StepLandlock:   "landlock_failed",
	wire.StepCanary:     "canary_failed",
}

const doctorFix = "see what pinfold doctor says about this machine"

// stepFixes say what to do, where there is something.
var stepFixes = map[string]string{ //nolint:gochecknoglobals // a table
	"boundary_mismatch": "something changed this path between the check and the start: run it again, and deny the directory above if it recurs",
	"chdir_failed":      "choose another --chdir, or grant the directory",
	"limit_failed":      "lower the limit in the policy, or raise the caller's own",
	"listen_failed":     "another port in network.host_ports, or none that the image's own services use",
}

// failureError turns the stub's Failed packet into the error of the launch: a
// refusal, or, when only the command itself can't be executed, what a shell
// would answer.
func failureError(f *wire.Failure) error {
	if f.Step == wire.StepExec {
		return execError(f)
	}
	code, ok := stepCodes[f.Step]
	if !ok {
		code = "stub_failed"
	}
	fix, ok := stepFixes[code]
	if !ok {
		fix = doctorFix
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: code, Subject: f.Path,
		Why: "cannot start the command: " + failureText(f), Fix: fix, Err: errnoOf(f),
	}
}

// execError is 127 for a command that isn't there and 126 for one that can't
// be executed, as POSIX shells have it.
func execError(f *wire.Failure) error {
	code := CodeNotExecutable
	if e := syscall.Errno(f.Errno); e == syscall.ENOENT || e == syscall.ENOTDIR {
		code = CodeNotFound
	}
	return &NotRunError{
		Exit: Exit{Code: code, Reason: Refused},
		Why:  "cannot run the command in the container: " + failureText(f), Err: errnoOf(f),
	}
}

func failureText(f *wire.Failure) string {
	text := printable(f.Text)
	if f.Path != "" {
		text = fmt.Sprintf("%q: %s", f.Path, text)
	}
	if err := errnoOf(f); err != nil {
		text += ": " + err.Error()
	}
	return text
}

func errnoOf(f *wire.Failure) error {
	if f.Errno == 0 {
		return nil
	}
	return syscall.Errno(f.Errno)
}

// stubError is for a stub that broke off, or said what it shouldn't.
func stubError(what string, cause error) error {
	why := "cannot start the command: " + what
	if cause != nil && !errors.Is(cause, errStubClosed) {
		why += ": " + cause.Error()
	}
	return &policy.Refusal{Reason: policy.Unavailable, Code: "stub_failed", Subject: "container", Why: why, Fix: doctorFix, Err: cause}
}

// errStubClosed is the end of the conversation with the stub.
var errStubClosed = errors.New("the stub has closed its connection")

// detailSize bounds what is shown of someone else's words.
const detailSize = 300

// printable drops control characters and cuts.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > detailSize {
		s = strings.ToValidUTF8(s[:detailSize], "") + "…"
	}
	return strings.TrimSpace(s)
}
