package bwrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// probeNames learns where the files are by which programs look names up, and
// whether there is IPv6.
func probeNames(m *Machine) error {
	for p, to := range map[string]*string{"/etc/resolv.conf": &m.Resolv, "/etc/hosts": &m.Hosts} {
		real, err := filepath.EvalSymlinks(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot resolve %q: %w", p, err)
		}
		*to = real
	}
	var err error
	if m.Hostname, err = os.Hostname(); err != nil {
		return fmt.Errorf("cannot learn the name of the host: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		m.IPv6 = true
	}
	return nil
}
