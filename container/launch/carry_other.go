//go:build !linux

package launch

import "net"

func listenUnix(path string) (net.Listener, error) { return net.Listen("unix", path) } //nolint:noctx // it doesn't wait
