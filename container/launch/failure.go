package launch

import (
	"errors"

	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

const doctorFix = supervise.DoctorFix

// stepFixes say what to do in this tier.
var stepFixes = map[string]string{ //nolint:gochecknoglobals // a table
	"chdir_failed":  "choose another --chdir, or grant the directory",
	"listen_failed": "another port in network.host_ports, or none that the image's own services use",
}

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
		Why:  "cannot run the command in the container: " + supervise.FailureText(f), Err: supervise.FailureErrno(f),
	}
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
