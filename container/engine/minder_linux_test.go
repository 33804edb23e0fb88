package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"pinfold/container"
	"pinfold/container/engine"
)

// TestUnseenEnd: podman says "running" of a container whose conmon was killed,
// however long it has ended. Only where both processes have gone is it called
// ended, and with no code of the engine's.
func TestUnseenEnd(t *testing.T) {
	t.Parallel()
	gone, me := endedProcess(t), os.Getpid()
	for name, c := range map[string]struct {
		status         string
		pid, conmon    int
		unknown, alive bool
	}{
		"both gone":           {"running", gone, gone, false, false},
		"both gone, stopping": {"stopping", gone, gone, false, false},
		"the first lives":     {"running", me, gone, false, true},
		"conmon lives":        {"running", gone, me, false, true},
		"no conmon is told":   {"running", gone, 0, false, true},
		"no pid is told":      {"running", 0, gone, false, true},
		"podman can't tell":   {"running", gone, gone, true, true},
	} {
		f := docker()
		root := t.TempDir()
		f.header = map[string]string{"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1"}
		f.answers["GET /v4.0.0/libpod/info"] = fmt.Sprintf(`{"store":{"graphRoot":%q}}`, root)
		f.answers["GET /v1.41/containers/"+id+"/json"] = fmt.Sprintf(`{"Id":%q,"State":{"Status":%q,"Pid":%d,"StartedAt":"2026-01-02T03:04:05Z"}}`, id, c.status, c.pid)
		if !c.unknown {
			f.answers["GET /v4.0.0/libpod/containers/"+id+"/json"] = fmt.Sprintf(`{"State":{"ConmonPid":%d}}`, c.conmon)
		}
		e, err := engine.Connect(t.Context(), engine.Podman, f.serve(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		info, err := e.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.Inspect(t.Context(), container.Ref{Provider: engine.Podman, Daemon: info.Identity, ID: id})
		if err != nil || s.Alive() != c.alive || s.Unseen == c.alive || s.Ended() == c.alive {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if !c.alive && s.ExitCode != container.KilledCode {
			t.Errorf("%s: code %d", name, s.ExitCode)
		}
	}
}

// endedProcess is the pid of a process that has ended and was waited for.
func endedProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.Pid()
}
