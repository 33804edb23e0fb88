package seatbelt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitExited waits until a process has ended and leaves it as a zombie, whose
// pid nobody can take: kqueue(2) with NOTE_EXIT. Where that can't be had (the
// process has ended: ESRCH) the caller waits in its own way.
func waitExited(pid int) {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(kq)
	unix.CloseOnExec(kq)
	want := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	got := make([]unix.Kevent_t, 1)
	for {
		_, err := unix.Kevent(kq, []unix.Kevent_t{want}, got, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// maxrssUnit: getrusage(2) counts bytes here.
const maxrssUnit = 1
