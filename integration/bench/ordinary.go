package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ordinaryID is who root measures a launch as, too: no number that a user
// namespace without a map shows.
const ordinaryID = 1000

// ordinary measures a launch by somebody who isn't root: bubblewrap has fewer
// mounts to make then, and what the supervisor does counts for more.
func (b *bench) ordinary() (err error) {
	if os.Getuid() != 0 {
		return nil // all rows are an ordinary user's
	}
	root, err := os.MkdirTemp("/var/lib", "pinfold-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	u := benchIn(b.settings, root)
	u.as = &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}
	u.pinfold = filepath.Join(root, "pinfold")
	if err := errors.Join(u.lay(), copyProgram(b.pinfold, u.pinfold), os.Chmod(root, 0o755), chownAll(root)); err != nil {
		return err
	}
	same, err := u.sameMounts("true")
	if err != nil {
		return err
	}
	m, err := turns(b.runs, u.plain("pinfold", u.wrap(u.policy, "true")...), same)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{"the same as an ordinary user", ms(m[0]), ms(m[1]), times(m[0], m[1]), "at most 1.8 ×"})
	return nil
}

// copyProgram copies an executable to where the user can reach it.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func chownAll(root string) error {
	return filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, ordinaryID, ordinaryID))
	})
}
