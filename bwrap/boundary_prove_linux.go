package bwrap

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// looking is the look at who has hold of what a cover was put on.
type looking struct {
	*mending
	point  *point
	recipe recipe
	fd     int
	object object
	cover  identity
	lease  int // a descriptor with a lease on a file, from 1 on
	lets   int // how often all were let go for a moment
}

// unproved is an end: the cover is on, and still somebody may have what lies
// beneath.
type unproved struct{ error }

func (u unproved) Unwrap() error { return u.error }

// errReplaced is for another round, with what is there now.
var errReplaced = errors.New("the host goes on replacing it")

// errHeld is for somebody inside who has hold of the object.
var errHeld = errors.New("is in use inside")

// prove makes sure, with the cover on, that nobody inside has hold of what lies
// beneath. A look that finds nobody counts if nobody has run from when all were
// seen to stand until it was over, the first time from before the cover came:
// nobody is on his way to the object then, or hands it to somebody who was
// looked at already.
func (l *looking) prove() error {
	for {
		err := l.look()
		ran := !l.halt.stood()
		switch {
		case l.identify(l.point.path) != l.cover:
			return errReplaced
		case ran:
			err = l.halt.again()
		case err == nil:
			return nil
		case errors.Is(err, errHeld):
			err = l.letUse(err)
		case time.Now().Before(l.end):
			pause(time.Millisecond) // the host may be at it still
			err = nil
		}
		if err != nil {
			return unproved{err}
		}
	}
}

// maxLets bounds how often those who read a file are let go on: for 62 ms in
// all.
const maxLets = 5

// letUse lets those go on who may have hold of a file just because they were
// reading it when they were stopped, as git does its configuration, to close
// it. Who keeps it ends the run.
func (l *looking) letUse(held error) error {
	if l.lets++; l.lets > maxLets || l.object.dir || l.recipe.kind != showReadOnly {
		return held
	}
	rounds := l.halt.rounds
	l.halt.letGo()
	pause(time.Millisecond << l.lets)
	var err error
	l.halt, err = stopInside(l.init)
	l.halt.rounds = rounds
	return err
}

// look looks who has hold of the object, and for other ways to it.
func (l *looking) look() (err error) {
	l.free()
	o := &l.object
	reads := l.recipe.kind == showReadOnly
	if !l.point.up.readOnly {
		if err := l.reachable(); err != nil {
			return err
		}
	}
	if o.dir || !reads || !l.point.up.readOnly {
		why, err := l.halt.holder(*o)
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("it %w: %s", errHeld, why)
		}
	}
	if o.dir {
		return nil
	}
	// Where a service could have been sent a descriptor, it isn't to have one
	// to read with either.
	return l.take(reads && (l.point.up.readOnly || !l.services()))
}

func (l *looking) services() bool { return l.launch.AllSockets || len(l.launch.Sockets) > 0 }

// reachable looks for ways to an object that could be written through, and
// that outlast the cover: another name of the file, or of one in the directory,
// which could be given to it as long as the cover was off. It notes what lies
// in the directory, of which somebody may have hold as well.
func (l *looking) reachable() (err error) {
	if l.object.dir {
		if l.services() {
			return errServices
		}
		l.object.beneath, err = surveyBeneath(l.fd, l.point.path)
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return err
	}
	if st.Nlink > 1 {
		return otherName(l.point.path)
	}
	return nil
}

// take takes a lease on a file, which says that nobody at all has it open, or
// open to write: the kernel refuses one on a file that is, descriptors on their
// way through a socket counted (fcntl(2)); those with O_PATH aren't.
func (l *looking) take(mayRead bool) error {
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(l.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.lease = file
	kind := unix.F_WRLCK
	if mayRead {
		kind = unix.F_RDLCK
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_SETLEASE, kind); err != nil {
		return fmt.Errorf("it can't be told whether somebody has it open: %w", err)
	}
	return nil
}

// free gives the lease back.
func (l *looking) free() {
	if l.lease > 0 {
		unix.Close(l.lease)
	}
	l.lease = 0
}
