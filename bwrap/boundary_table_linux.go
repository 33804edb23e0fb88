package bwrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
)

// seenMount is one mount of the sandbox's table.
type seenMount struct {
	guard.MountPoint
	own bool // bubblewrap made it and it shows, or mending did
}

// firstTable reads the mount table as bubblewrap made it, and refuses what the
// host has mounted since the guard's look, if that undoes a rule.
func (b *boundary) firstTable() error {
	list, err := b.readTable()
	if err != nil {
		return err
	}
	b.mounts = make(map[int]seenMount, len(list))
	top := make(map[string]uint64, len(b.points)) // as they were looked at just now
	for i := range b.points {
		top[b.points[i].path] = b.points[i].want.mount
	}
	ours := b.planned()
	for _, m := range list {
		had := b.judge != nil && b.judge.Had(m)
		own := !had && ours(m.Path) && (top[m.Path] == uint64(m.ID) || b.launch.private(m.Path) || b.shows(m))
		b.mounts[m.ID] = seenMount{m, own}
		if had || own {
			continue
		}
		if l := b.judgeLate(m); l != nil {
			return l
		}
	}
	return nil
}

// planned reports whether bubblewrap mounts something at a path. What it makes
// there shows; beneath it lie the host's own mounts, since the root comes with
// all of them, and those come and go as they like: a tmpfs of the host's at
// /dev/shm/x is at that path in the table, beneath the sandbox's own /dev/shm.
func (b *boundary) planned() func(path string) bool {
	ours := map[string]bool{}
	for _, m := range b.launch.Plan.Mounts {
		ours[freshNames(b.launch.fresh).path(m.Path)] = true
	}
	return func(path string) bool {
		return ours[path] || path == "/proc" || isBelow(path, "/proc") || isBelow(path, "/dev")
	}
}

// maxTable bounds a mount table: 100,000 mounts, the kernel's own limit
// (/proc/sys/fs/mount-max), of 300 bytes.
const maxTable = 32 << 20

func (b *boundary) readTable() ([]guard.MountPoint, error) {
	if _, err := unix.Seek(b.table, 0, io.SeekStart); err != nil {
		return nil, err
	}
	text := make([]byte, 0, 32<<10)
	for {
		text = slices.Grow(text, 4<<10)
		n, err := unix.Read(b.table, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case len(text) > maxTable:
			return nil, fmt.Errorf("more than %d bytes", maxTable)
		case n == 0:
			return guard.ReadMounts(bytes.NewReader(text))
		}
		text = text[:len(text)+n]
	}
}

// newMounts judges what the host has mounted since the last look, and takes off
// inside what must not show there. What was mended just now isn't the host's,
// though nobody has noted it yet where the host has bared something else meanwhile.
func (m *mending) newMounts() *loss {
	list, err := m.readTable()
	if err != nil {
		return tableLoss(err)
	}
	for _, p := range list {
		if have, known := m.mounts[p.ID]; known && have.Is(p) || m.isEarly(p.ID) || m.isMended(p) {
			continue
		}
		var l *loss
		if m.shows(p) {
			if l = m.judgeShown(p); l == nil {
				m.harmless[p.ID] = p
			}
		} // else it is looked at again the next time
		if l == nil {
			m.letBe(p)
			continue
		}
		if err := m.unmount(p.Path); err != nil {
			l.why += fmt.Sprintf("; it can't be taken off inside: %v", err)
			return l
		}
		m.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: p.Path, Reason: "late_mount_removed", Duration: time.Since(m.began)})
		m.taker.tell(p.Path, fmt.Sprintf("%q: %s; inside, it was taken off again", p.Path, l.why))
	}
	return nil
}

// letBe notes a mount that does no harm, or that nobody inside can get at, once,
// for whoever compares the table later. From here on it is this side's to watch.
func (m *mending) letBe(p guard.MountPoint) {
	if !m.noted[p.Path] {
		m.noted[p.Path] = true
		m.note(plan.ActionLetBe, p.Path)
	}
}

func tableLoss(err error) *loss {
	return &loss{"watch_failed", "/", fmt.Sprintf("cannot read the mount table: %v", err)}
}

// compareTable looks for mounts of bubblewrap's that have gone and weren't
// mended. What has come since newMounts isn't noted: the next look judges it.
func (m *mending) compareTable() *loss {
	list, err := m.readTable()
	if err != nil {
		return tableLoss(err)
	}
	now := make(map[int]seenMount, len(list))
	for _, p := range list {
		switch have, known := m.mounts[p.ID]; {
		case known && have.Is(p):
			now[p.ID] = have
		case m.isMended(p):
			now[p.ID] = seenMount{p, true}
		case m.harmless[p.ID].Is(p):
			now[p.ID] = seenMount{p, false}
		}
	}
	for id, have := range m.mounts {
		if still, ok := now[id]; (!ok || !have.Is(still.MountPoint)) && have.own && !m.gone[have.Path] {
			return &loss{"cover_detached", have.Path, "the host removed or replaced what was mounted over"}
		}
	}
	m.mounts = now
	return nil
}

// isMended reports whether a mount was made by mending.
func (m *mending) isMended(p guard.MountPoint) bool {
	return slices.ContainsFunc(m.points, func(have point) bool {
		return have.path == p.Path && have.want.mount == uint64(p.ID)
	})
}

// judgeLate says what is wrong with a mount that the host has made, if
// anything is. One that nothing inside can see or write is nobody's business.
func (b *boundary) judgeLate(m guard.MountPoint) *loss {
	if !b.shows(m) {
		return nil
	}
	return b.judgeShown(m)
}

func (b *boundary) judgeShown(m guard.MountPoint) *loss {
	if b.judge != nil {
		if rule, bad := b.judge.Betrays(m); bad {
			return &loss{"late_mount", m.Path, fmt.Sprintf("the host mounted something there that shows what %q denies", rule.Text)}
		}
	}
	if slices.ContainsFunc(b.points, func(p point) bool { return p.path == m.Path || isBelow(p.path, m.Path) }) {
		return &loss{"late_mount", m.Path, "the host mounted something over what is kept from the command there"}
	}
	if !m.ReadOnly && b.writable(m.Path) {
		return &loss{"late_mount", m.Path, "the host mounted something there that could be written from inside"}
	}
	return nil
}

// shows reports whether a mount is what its path leads to inside. Whatever
// can't be told counts as shown.
func (b *boundary) shows(m guard.MountPoint) bool {
	id := b.identify(m.Path)
	return id.err == 0 && (id.mount == 0 || id.mount == uint64(m.ID)) || id.err != 0 && id.err != unix.ENOENT && id.err != unix.ENOTDIR && id.err != unix.EACCES
}

// writable reports whether a mount at a path could be written: Landlock, where
// it is in force, allows that beneath the write grants alone.
func (b *boundary) writable(path string) bool {
	l := b.launch.Setup.Landlock
	if !l.Enabled {
		return true
	}
	for _, w := range append(l.Writable, l.WriteFiles...) {
		if path == w || isBelow(path, w) {
			return true
		}
	}
	return false
}
