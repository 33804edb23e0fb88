package engine

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/sys/unix"

	"pinfold/container"
)

// libpodContainer is what podman's own API alone says of one.
type libpodContainer struct {
	State struct {
		ConmonPid int
	}
}

// unseenEnd finds an end that podman will never learn of: conmon tells it, and
// where that was killed podman says "running" for good. Both processes must
// have gone, and podman, asked once more after that, still not know.
func (e *Engine) unseenEnd(ctx context.Context, r container.Ref, s container.State) (container.State, error) {
	if !e.podman || !s.Alive() || !hasGone(s.Pid) || !e.client.sharesPids(ctx) {
		return s, nil
	}
	var got libpodContainer
	err := e.client.look(ctx, request{method: "GET", path: "/v4.0.0/libpod" + e.path(r, "/json"), bare: true}, &got)
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return container.State{}, err
	}
	if err != nil || !hasGone(got.State.ConmonPid) {
		return s, nil
	}
	now, err := e.inspectOnce(ctx, r)
	if err != nil || !now.Alive() || now.Pid != s.Pid {
		return now, err
	}
	now.Status, now.Pid, now.ExitCode, now.Unseen = container.Dead, 0, container.KilledCode, true
	return now, nil
}

// hasGone reports whether there is no such process. Nobody's is pid 0.
func hasGone(pid int) bool {
	return pid > 1 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// sharesPids reports whether the engine's pids mean here what they mean to it:
// who listens on its socket has a pid here, which one outside of this
// process's pid namespace hasn't (pid_namespaces(7)).
func (c *client) sharesPids(ctx context.Context) bool {
	conn, err := c.dial(ctx)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing was said
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return false
	}
	return peer.Pid > 0
}
