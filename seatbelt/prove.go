package seatbelt

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"time"
)

// brokenError is a boundary that let something through.
type brokenError struct{ what string }

func (e *brokenError) Error() string { return "the sandbox lets the command " + e.what }

// prove tries what the boundary must refuse. A profile that was compiled but
// means something else than it should is found here, on the machine itself.
func prove(c Claims) error {
	for _, try := range []func() error{
		func() error { return tryRead(c.Unreadable) },
		func() error { return tryMake(c.Unwritable) },
		func() error { return tryConnect(c.Unreached) },
		func() error { return trySee(c.Unseen, argumentsOf) },
	} {
		if err := try(); err != nil {
			return err
		}
	}
	return nil
}

func tryRead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return refusedOnly(err)
	}
	return errors.Join(&brokenError{"read " + strconv.Quote(path)}, f.Close())
}

func tryMake(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return refusedOnly(err)
	}
	return errors.Join(&brokenError{"make " + strconv.Quote(path)}, f.Close(), os.Remove(path))
}

func tryConnect(address string) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.Dial("tcp", address)
	if err != nil {
		return refusedOnly(err)
	}
	return errors.Join(&brokenError{"connect to " + address}, conn.Close())
}

// trySee asks for what another process was started with. There is no one
// error for a process that may not be seen; an answer is what may not be.
func trySee(pid int, arguments func(int) ([]byte, error)) error {
	if b, err := arguments(pid); err == nil && len(b) > 0 {
		return &brokenError{"read the arguments and the environment of process " + strconv.Itoa(pid)}
	}
	return nil
}

// refusedOnly: only a refusal proves anything.
func refusedOnly(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return fmt.Errorf("cannot try the sandbox: %w", err)
}
