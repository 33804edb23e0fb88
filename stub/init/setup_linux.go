package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// seals are what makes the orders final: nobody, the supervisor's own
// mistakes included, changes them between here and the command.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// readSetup reads the orders from a sealed memfd, whatever its file offset,
// and closes it.
func readSetup(fd int) (*wire.Setup, *wire.Failure) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, failed(wire.StepSetup, "", "descriptor 3 is no memfd", err)
	}
	if got&seals != seals {
		return nil, failed(wire.StepSetup, "", "the setup is not sealed", nil)
	}
	b, err := readAll(fd)
	if err != nil {
		return nil, failed(wire.StepSetup, "", "cannot read the setup", err)
	}
	s, err := wire.DecodeSetup(b)
	if err != nil {
		return nil, failed(wire.StepSetup, "", "cannot read the setup", err)
	}
	unix.Close(fd)
	return s, nil
}

// readAll reads a file of known, bounded size.
func readAll(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size > wire.MaxSetup {
		return nil, wire.ErrTooLong
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		m, err := unix.Pread(fd, b[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return nil, unix.EIO // sealed against shrinking, so never
		}
		n += m
	}
	return b, nil
}
