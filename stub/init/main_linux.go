// The runtime need not look for a cgroup's CPU limit, nor keep its files open.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// exitFailed is the status when the command didn't run. The supervisor goes
// by the Failed packet; the number serves someone who runs this by hand.
const exitFailed = 125

func main() {
	runtime.LockOSThread()
	if self, arg := arguments(); arg == wire.ContainerArg {
		keep(self)
	} else if f := run(); f != nil {
		report(f)
	}
	unix.Exit(exitFailed)
}

// run returns only if the command could not be started.
func run() *wire.Failure {
	if f := closeOnExec(); f != nil {
		return f
	}
	s, f := readSetup(wire.SetupFD)
	if f != nil {
		return f
	}
	if f := loadInner(s.Inner); f != nil {
		return f
	}
	terminal, f := greet(s)
	if f != nil {
		return f
	}
	if f := prove(s); f != nil {
		return f
	}
	if f := enter(s, terminal); f != nil {
		return f
	}
	return become(s)
}

// prove compares the boundary with the orders, before anything of the
// command's is touched.
func prove(s *wire.Setup) *wire.Failure {
	if f := checkPrivileges(); f != nil {
		return f
	}
	for i := range s.Checks {
		if f := check(&s.Checks[i]); f != nil {
			return f
		}
	}
	return nil
}

// enter takes on everything the command inherits. Limits come last, since a
// small one would hit the stub itself.
func enter(s *wire.Setup, terminal int) *wire.Failure {
	if f := takeTerminal(terminal, s.TTY); f != nil {
		return f
	}
	if f := placeStderr(s); f != nil {
		return f
	}
	if f := placeDevices(); f != nil {
		return f
	}
	unix.Umask(s.Umask)
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(wire.StepDir, s.Dir, "cannot enter the working directory", err)
	}
	if f := restrict(&s.Landlock); f != nil {
		return f
	}
	if f := resetSignals(s.IgnoreSignals); f != nil {
		return f
	}
	if f := try(s); f != nil {
		return f
	}
	if s.Hold {
		if f := awaitGo(); f != nil {
			return f
		}
	}
	if s.ShareSignals {
		if f := shareSignals(); f != nil {
			return f
		}
	}
	return setLimits(s.Limits)
}

// become says Ready and executes the command, or runs it as the job of the
// terminal that is its standard input.
func become(s *wire.Setup) *wire.Failure {
	if err := sendPacket(wire.EncodeSignal(wire.Ready), nil); err != nil {
		return failed(wire.StepExec, "", "cannot tell the supervisor", err)
	}
	if s.TTY&wire.TTYStdin != 0 {
		return execute(job{later: s.TTY&wire.TTYLater != 0}.run, s.Argv, s.Env)
	}
	return execute(unix.Exec, s.Argv, s.Env)
}

func setLimits(list []wire.Rlimit) *wire.Failure {
	for _, l := range list {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return failed(wire.StepLimit, "", "cannot set resource limit "+itoa(uint64(l.Resource)), err)
		}
	}
	return nil
}

// failed is a Failure with the system call's errno, if there was one.
func failed(step, path, text string, err error) *wire.Failure {
	f := &wire.Failure{Step: step, Path: path, Text: text}
	if errno, ok := err.(unix.Errno); ok { //nolint:errorlint // x/sys returns bare errnos, and errors.As costs reflection
		f.Errno = int(errno)
	} else if err != nil {
		f.Text += ": " + err.Error()
	}
	return f
}

// itoa is a decimal number, without fmt.
func itoa(n uint64) string { return digits(n, 10) }

// octal is a file mode as chmod(1) writes it.
func octal(n uint64) string { return "0" + digits(n, 8) }

func digits(n, base uint64) string {
	var buf [24]byte
	i := len(buf)
	for {
		i--
		buf[i] = byte('0' + n%base)
		if n /= base; n == 0 {
			return string(buf[i:])
		}
	}
}
