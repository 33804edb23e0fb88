//go:build linux

package container_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold/container/engine"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// TestSubmounts: what is mounted within a read grant can't be written either,
// though an engine makes only its own mount read-only.
func TestSubmounts(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		if os.Getuid() != 0 {
			t.Skip("only root can mount on the host")
		}
		b := newBox(t, l)
		b.mkdir(b.home + "/docs/usb")
		b.mkdir(b.workspace + "/cache")
		for _, dir := range []string{b.home + "/docs/usb", b.workspace + "/cache"} {
			if err := syscall.Mount("pinfold-test", dir, "tmpfs", 0, "mode=0777"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
			b.file(dir+"/file", "x")
		}
		plan, err := b.plan(`{"write": ["{workspace}"], "read": {"allow": ["@home/docs"]}, "container": {"mounts": [{"source": "@w", "target": "/ro"}]}}`)
		if err != nil {
			t.Fatal(err)
		}
		// The stub is told which object has to stand there.
		var st syscall.Stat_t
		if err := syscall.Stat(b.home+"/docs/usb", &st); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(plan.Checks, wire.Check{Kind: wire.CheckBind, Path: b.home + "/docs/usb", Dev: st.Dev, Ino: st.Ino, ReadOnly: true}) {
			t.Errorf("no check of it in %+v", plan.Checks)
		}
		if l.name == "podman-rootless" {
			// It has a mount table of its own, from before: what it would mount is
			// what lies beneath, and the stub refuses that.
			return
		}
		got := b.start(plan, tries+`
			try read-usb cat @home/docs/usb/file
			try write-usb touch @home/docs/usb/new
			try read-cache cat @w/cache/file
			try write-cache touch @w/cache/new
			try write-mapped touch /ro/cache/new
		`)
		checkAnswers(t, got, map[string]string{"read-usb": "yes", "write-usb": "no", "read-cache": "yes", "write-cache": "yes", "write-mapped": "no"})
	})
}

// TestLinks: what names a grant through a link names it inside as well.
func TestLinks(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		b.file(b.home+"/real/tool", "tool")
		b.symlink(b.home+"/real", b.home+"/link")
		b.env = []string{"X=@home/none"}
		plan, err := b.plan(`{"write": ["{workspace}"], "read": {"allow": ["@home/link"]}, "env": {"set": {"P": "/bin:@home/link/bin", "Q": "@home/link"}}}`,
			"cat", "@home/link/tool", "--in=@home/link/tool", "echo @home/link")
		if err != nil {
			t.Fatal(err)
		}
		want := b.expand("cat @home/real/tool --in=@home/real/tool echo @home/link")
		if got := strings.Join(plan.Argv, " "); got != want {
			t.Errorf("argv is %q, wanted %q", got, want)
		}
		env := strings.Join(plan.Env, "\n")
		for _, v := range []string{"P=/bin:@home/real/bin", "Q=@home/real"} {
			if !strings.Contains(env, b.expand(v)) {
				t.Errorf("no %s in\n%s", b.expand(v), env)
			}
		}
		got := b.start(plan, tries+`
			try by-path cat @home/real/tool
			try by-link cat @home/link/tool
		`)
		checkAnswers(t, got, map[string]string{"by-path": "yes", "by-link": "no"})
	})
}

// TestManyFiles: the size of what is mounted costs a container nothing.
func TestManyFiles(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		const files = 20000
		for i := range files {
			if i%1000 == 0 {
				b.mkdir(fmt.Sprintf("%s/d%d", b.workspace, i/1000))
			}
			if err := os.WriteFile(fmt.Sprintf("%s/d%d/f%d", b.workspace, i/1000, i), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		got := b.run(`{"write": ["{workspace}"]}`, `echo "files: $(find @w -type f | wc -l)"`)
		checkAnswers(t, got, map[string]string{"files": itoa(files)})
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestSocketsInGrants: a container reaches every socket that it sees, so one
// that nobody listed is no grant's to show.
func TestSocketsInGrants(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		inside, outside := b.workspace+"/s", b.home+"/tb/s"
		b.mkdir(b.home + "/tb")
		for _, path := range []string{inside, outside} {
			s, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			b.give(path)
		}
		_, err := b.plan(`{"write": ["{workspace}"]}`)
		wantCode(t, err, "socket_in_grant")
		for _, ok := range []string{
			`{"write": ["{workspace}"], "read": {"deny": ["@w/s"]}}`, `{"write": ["{workspace}"], "sockets": ["@w/s"]}`, `{"write": ["{workspace}"], "unix_sockets": "all"}`,
		} {
			if _, err := b.plan(ok); err != nil {
				t.Errorf("%s: %v", ok, err)
			}
		}
		// A listed one outside of the grants shows alone in its directory.
		b.file(b.home+"/tb/token", "secret")
		got := b.run(`{"write": ["{workspace}"], "read": {"deny": ["@w/s"]}, "sockets": ["@home/tb/s"]}`, tries+`
			echo "beside: $(ls -A @home/tb | tr '\n' ' ')"
			try make touch @home/tb/new
		`)
		checkAnswers(t, got, map[string]string{"beside": "", "make": "no"})
	})
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != code || r.Fix == "" {
		t.Errorf("got %v, wanted %s", err, code)
	}
}

// TestRefusedHere: what a real engine can't be asked for.
func TestRefusedHere(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		for text, code := range map[string]string{
			`{"write": ["{workspace}"], "container": {"mounts": [{"source": "@home/none", "target": "/x"}]}}`:              "mount_missing",
			`{"write": ["{workspace}"], "container": {"mounts": [{"source": "@w", "target": "@w/none"}]}}`:                 "no_mount_point",
			`{"write": ["{workspace}"], "container": {"mounts": [{"source": "@w", "target": "/proc/x"}]}}`:                 "cannot_express",
			`{"write": ["{workspace}"], "container": {"mounts": [{"source": "@own/state", "target": "/x", "mode":"rw"}]}}`: "protected_write",
			`{"write": ["{workspace}"], "container": {"mounts": [{"source": "@own/state", "target": "/x"}]}}`:              "protected_read",
			`{"write": ["{workspace}"], "require": ["landlock"]}`:                                                          "requirement_unmet",
			`{"write": ["{workspace}"], "network": {"allow": ["example.com"], "mode": "transparent"}}`:                     "field_unavailable",
		} {
			_, err := b.plan(text)
			wantCode(t, err, code)
		}
		info, err := b.e.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !info.CanLimit.Memory {
			_, err := b.plan(`{"write": ["{workspace}"], "limits": {"memory": "64m"}}`)
			wantCode(t, err, "limit_unavailable")
		}
		if files, err := filepath.Glob(b.workspace + "/*"); err != nil || len(files) > 0 {
			t.Errorf("a refusal left %v, %v", files, err)
		}
	})
}

// TestConnectRefused: nobody there, another engine, one elsewhere.
func TestConnectRefused(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		other := engine.Docker
		if l.engine == engine.Docker {
			other = engine.Podman
		}
		for _, c := range []struct{ name, endpoint, code string }{
			{l.engine, "unix:///no/such/socket", "engine_unreachable"},
			{l.engine, "tcp://127.0.0.1:2375", "engine_remote"},
			{l.engine, "ssh://host/run/docker.sock", "engine_remote"},
			{other, l.endpoint, "engine_unexpected"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := engine.Connect(ctx, c.name, c.endpoint)
			cancel()
			wantCode(t, err, c.code)
		}
	})
}
