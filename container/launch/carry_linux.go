package launch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// listenUnix listens at a path of any length: a socket's name holds 107
// bytes, unix(7), and the descriptor of its directory is short.
func listenUnix(path string) (net.Listener, error) {
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only
	name := filepath.Base(path)
	_ = unix.Unlinkat(int(dir.Fd()), name, 0)
	at := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by then the name means something else
	// Whoever the engine's user namespace makes of the command must get in.
	if err := unix.Fchmodat(int(dir.Fd()), name, 0o666, 0); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
