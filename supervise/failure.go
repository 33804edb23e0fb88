package supervise

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"unicode"

	"pinfold/policy"
	"pinfold/stub/wire"
)

// stepCodes are the refusals that a stub's failed step stands for; of every
// other step it is stub_failed.
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

// DoctorFix is the fix where nothing better is known.
const DoctorFix = "see what pinfold doctor says about this machine"

// fixes say what to do in every tier, where there is something.
func fixes() map[string]string {
	return map[string]string{
		"boundary_mismatch": "something changed this path between the check and the start: run it again, and deny the directory above if it recurs",
		"canary_failed":     "the plan claims what doesn't hold inside, so nothing was run: see what pinfold doctor says about this machine",
		"limit_failed":      "lower the limit in the policy, or raise the caller's own",
	}
}

// Refusal is the refusal for a failed step of the stub's. more are the fixes
// of one tier, by code.
func Refusal(f *wire.Failure, more map[string]string) *policy.Refusal {
	code, ok := stepCodes[f.Step]
	if !ok {
		code = "stub_failed"
	}
	known := fixes()
	maps.Copy(known, more)
	fix, ok := known[code]
	if !ok {
		fix = DoctorFix
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: code, Subject: f.Path,
		Why: "cannot start the command: " + FailureText(f), Fix: fix, Err: FailureErrno(f),
	}
}

// NotFound reports whether the command isn't there, rather than not
// executable: 127 and 126 to a POSIX shell.
func NotFound(f *wire.Failure) bool {
	e := syscall.Errno(f.Errno)
	return e == syscall.ENOENT || e == syscall.ENOTDIR
}

// FailureText is what the stub says of its failure, made harmless.
func FailureText(f *wire.Failure) string {
	text := Printable(f.Text)
	if f.Path != "" {
		text = fmt.Sprintf("%q: %s", f.Path, text)
	}
	if err := FailureErrno(f); err != nil {
		text += ": " + err.Error()
	}
	return text
}

// FailureErrno is the system's error in a failure, or nil.
func FailureErrno(f *wire.Failure) error {
	if f.Errno == 0 {
		return nil
	}
	return syscall.Errno(f.Errno)
}

// detailSize bounds what is shown of someone else's words.
const detailSize = 300

// Printable drops control characters, which could rewrite a terminal's
// screen, and cuts.
func Printable(s string) string {
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
