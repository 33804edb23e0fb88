package seatbelt

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// writeRoot notes what runs before the command does.
func (s *launcher) writeRoot() error {
	r, err := s.rootOf()
	if err != nil {
		return err
	}
	return s.o.Record.WriteRoot(r)
}

func (s *launcher) rootOf() (plan.Root, error) {
	own, err := identify(os.Getpid())
	if err != nil {
		return plan.Root{}, err
	}
	boot, err := BootID()
	if err != nil {
		return plan.Root{}, err
	}
	exe, err := ownExecutable()
	if err != nil {
		return plan.Root{}, err
	}
	r := plan.Root{
		Digest: s.digest, Started: time.Now(), BootID: boot, Owner: os.Getuid(), Supervisor: own, Exe: exe,
		Command: s.root, Terminal: s.relay.hasInput(),
	}
	for _, f := range s.o.Fresh {
		if r.Fresh == nil {
			r.Fresh = map[string]string{}
		}
		r.Fresh[f.Name] = f.Path
	}
	return r, nil
}

func identify(pid int) (plan.Process, error) {
	p, ok, err := LookUp(pid)
	if err == nil && !ok {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return plan.Process{PID: pid, StartTicks: p.Start}, err
}

func ownExecutable() (plan.File, error) {
	path, err := os.Executable()
	if err != nil {
		return plan.File{}, fmt.Errorf("cannot find this program: %w", err)
	}
	return FileOf(path)
}

// FileOf is the identity of what a path leads to.
func FileOf(path string) (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at %q: %w", path, err)
	}
	return plan.File{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}
