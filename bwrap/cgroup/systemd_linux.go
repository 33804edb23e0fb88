package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// scopeWait bounds how long systemd may take. It takes milliseconds.
const scopeWait = 10 * time.Second

// unitManager is a systemd, by its own socket: there may be no message bus,
// and this one needs none.
type unitManager struct {
	socket string
}

// systemd is the caller's: root's is the system's.
func systemd() Manager {
	if os.Geteuid() == 0 {
		return &unitManager{socket: "/run/systemd/private"}
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return &unitManager{socket: filepath.Join(dir, "systemd/private")}
	}
	return nil
}

// Running reports whether systemd is there.
func (m *unitManager) Running() bool {
	info, err := os.Stat(m.socket)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// StartScope makes a transient scope, and waits for its job to be done.
func (m *unitManager) StartScope(ctx context.Context, unit string, l Limits, processes []int) error {
	ctx, cancel := context.WithTimeout(ctx, scopeWait)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", m.socket)
	if err != nil {
		return fmt.Errorf("cannot reach it: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err = startScope(newBus(conn), unit, l, processes)
	if ctx.Err() != nil {
		return fmt.Errorf("cannot wait for it: %w", context.Cause(ctx))
	}
	return err
}

// startScope asks once with OOMPolicy, which scopes have since version 253:
// where one process is killed for want of memory, the others go on, as they
// do elsewhere. An older one doesn't touch them by itself.
func startScope(b *bus, unit string, l Limits, processes []int) error {
	if err := b.authenticate(os.Geteuid()); err != nil {
		return err
	}
	err := b.startUnit(unit, scopeBody(unit, l, processes, true))
	var refused *busError
	if errors.As(err, &refused) {
		err = b.startUnit(unit, scopeBody(unit, l, processes, false))
	}
	return err
}

// scopeBody is the body of StartTransientUnit (org.freedesktop.systemd1(5)):
// name, mode, properties a(sv), auxiliary units a(sa(sv)).
func scopeBody(unit string, l Limits, processes []int, oomPolicy bool) []byte {
	w := &marshal{}
	w.text(unit)
	w.text("fail")
	w.array(8, func() {
		w.property("Description", "s", func() { w.text("command run by pinfold") })
		w.property("CollectMode", "s", func() { w.text("inactive-or-failed") })
		w.property("PIDs", "au", func() {
			w.array(4, func() {
				for _, pid := range processes {
					w.u32(uint32(pid))
				}
			})
		})
		if oomPolicy {
			w.property("OOMPolicy", "s", func() { w.text("continue") })
		}
		limits(w, l)
	})
	w.array(8, func() {})
	return w.b
}

func limits(w *marshal, l Limits) {
	number := func(name string, n uint64) { w.property(name, "t", func() { w.u64(n) }) }
	if l.Memory != 0 {
		number("MemoryMax", uint64(l.Memory))
		number("MemorySwapMax", 0)
	}
	if l.PIDs != 0 {
		number("TasksMax", uint64(l.PIDs))
	}
	if l.CPUs != 0 {
		number("CPUQuotaPerSecUSec", uint64(l.CPUs*1e6+0.5))
	}
}
