package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// newTenant makes a file that the run holds a lock on, for it and for whoever
// is handed the descriptor: the lock is the open file's, flock(2), and ends
// with its last descriptor. It can't be written through.
func newTenant(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "*"+tenantExt)
	if err != nil {
		return nil, fmt.Errorf("cannot note a tenant: %w", err)
	}
	t, err := os.OpenFile(f.Name(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err == nil {
		if err = lock(t, unix.LOCK_SH); err != nil {
			err = errors.Join(err, t.Close())
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot note a tenant: %w", err), os.Remove(f.Name()))
	}
	return t, nil
}

// File is what a tenant's first process must have as long as it lives; nil
// where nothing is held.
func (h *Held) File() *os.File {
	if h == nil {
		return nil
	}
	return h.tenant
}

// move adds this run's tenant to a lease.
func (h *Held) move(l *lease) error {
	if h.tenant == nil {
		return nil
	}
	n := l.note
	n.Tenants = h.tenants(n.Tenants)
	return l.write(n)
}

// tenants are those that live, and this run's.
func (h *Held) tenants(have []string) []string {
	if h.tenant == nil {
		return have
	}
	own := filepath.Base(h.tenant.Name())
	kept := slices.DeleteFunc(slices.Clone(have), func(t string) bool {
		lives, err := isAlive(filepath.Join(h.dir, t))
		return t == own || err == nil && !lives
	})
	return append(kept, own)
}

// isAlive reports whether somebody holds a tenant's lock.
func isAlive(name string) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot tell whether a tenant lives: %w", err)
	}
	defer drop(f) //nolint:errcheck // nothing is left to do about it
	err = lock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// leave gives this process's hold on its tenant up, and the file with it if
// nobody else has one.
func (h *Held) leave() error {
	if h.tenant == nil {
		return nil
	}
	name := h.tenant.Name()
	err := h.tenant.Close()
	h.tenant = nil
	return errors.Join(err, clearTenant(name))
}

func clearTenant(name string) error {
	lives, err := isAlive(name)
	if err != nil || lives {
		return err
	}
	return ignoreGone(os.Remove(name))
}

// clearTenants removes the files of those that have gone.
func clearTenants(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot list tenants: %w", err)
	}
	var errs []error
	for _, e := range list {
		if strings.HasSuffix(e.Name(), tenantExt) {
			errs = append(errs, clearTenant(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
