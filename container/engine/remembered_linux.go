package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/container"
)

// remembered is what an engine said of itself, and which process listened for
// it then. Podman takes half a second to say it, as it asks half a dozen
// programs for their versions.
//
// Where the same process listens, the answer holds: what could have changed
// since, another storage behind an activated socket, shows when a container
// isn't there, since that is never believed without asking anew.
type remembered struct {
	Listener string         `json:"listener"`
	Version  string         `json:"version"`
	Info     container.Info `json:"info"`
}

// recall answers what was remembered in a directory, if it still holds.
func (e *Engine) recall(ctx context.Context) (container.Info, bool) {
	if e.memory == "" || !e.podman {
		return container.Info{}, false
	}
	var r remembered
	if err := readJSON(e.memoryFile(), &r); err != nil {
		return container.Info{}, false
	}
	now, err := listenerOf(ctx, e.client.socket)
	ok := err == nil && now == r.Listener && r.Version == e.base.Version && r.Info.Provider == e.name && r.Info.Endpoint == e.endpoint && r.Info.Identity != ""
	return r.Info, ok
}

// remember notes an answer. That it can't is no error: the next one asks.
func (e *Engine) remember(ctx context.Context, info container.Info) {
	if e.memory == "" || !e.podman {
		return
	}
	listener, err := listenerOf(ctx, e.client.socket)
	if err != nil {
		return
	}
	text, err := json.Marshal(remembered{listener, e.base.Version, info})
	if err != nil {
		return
	}
	f, err := os.CreateTemp(e.memory, ".engine-*")
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), e.memoryFile())
		if err == nil {
			return
		}
	}
	_ = os.Remove(f.Name()) //nolint:errcheck // nothing more can be done about it
}

func (e *Engine) memoryFile() string {
	sum := sha256.Sum256([]byte(e.name + " " + e.endpoint))
	return filepath.Join(e.memory, "engine-"+hex.EncodeToString(sum[:8])+".json")
}

// listenerOf names the process that listens on a socket: its pid, its start
// and the boot, which no other process ever has.
func listenerOf(ctx context.Context, socket string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn() //nolint:forcetypeassert // it was dialled as one
	if err != nil {
		return "", err
	}
	var peer *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { peer, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return "", err
	}
	if got != nil {
		return "", got
	}
	return processName(int(peer.Pid))
}

// processName reads the start of a process, the 22nd field of proc_pid_stat(5):
// the 20th after the name, which is in parentheses and may hold anything.
func processName(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return "", fmt.Errorf("cannot tell when process %d started", pid)
	}
	return fmt.Sprintf("%s %d %s", strings.TrimSpace(string(boot)), pid, fields[start]), nil
}
