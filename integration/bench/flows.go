package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flows compares what goes over the network and over unix sockets, by the
// proxy and without one, with the same outside.
func (b *bench) flows() error {
	host, ok := ownAddress()
	if !ok {
		b.rows = append(b.rows, row{"flows without a proxy", "", "this machine has no address but its loopback", "", ""})
		return nil
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "small") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	at := listener.Addr().String()
	policies := map[string]string{}
	for _, mode := range []string{"proxy", "transparent"} {
		if policies[mode], err = b.write(mode+".json", map[string]any{"network": map[string]any{"allow": []string{at}, "mode": mode}}); err != nil {
			return err
		}
	}
	return errors.Join(b.small(at, policies), b.unixSockets())
}

// ownAddress is an address of this machine that isn't its loopback, which
// inside is the sandbox's own.
func ownAddress() (string, bool) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String(), true
		}
	}
	return "", false
}

// small is what is asked often and carries little.
func (b *bench) small(at string, policies map[string]string) error {
	for _, s := range []struct {
		what, mode, kind, target, aim string
		n                             int
	}{
		{"connect(2) without a proxy", "transparent", "connect", at, "150 µs more", 1000},
		{"1,000 requests one after the other, without a proxy", "transparent", "one-by-one", "http://" + at + "/small", "", 1000},
		{"1,000 requests one after the other, through the proxy", "proxy", "one-by-one", "http://" + at + "/small", "", 1000},
		{"200 requests at once, without a proxy", "transparent", "at-once", "http://" + at + "/small", "all succeed", 200},
		{"200 requests at once, through the proxy", "proxy", "at-once", "http://" + at + "/small", "all succeed", 200},
	} {
		if err := b.compare(s.what, policies[s.mode], s.aim, s.kind, s.target, strconv.Itoa(s.n)); err != nil {
			return err
		}
	}
	return nil
}

// unixSockets is a listed one.
func (b *bench) unixSockets() error {
	path := filepath.Join(b.root, "service")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	policy, err := b.write("sockets.json", map[string]any{"sockets": []string{path}})
	if err != nil {
		return err
	}
	return b.compare("2,000 connections to a listed unix socket", policy, "", "unix", path, "2000")
}

// compare runs a probe inside and outside, in turn.
func (b *bench) compare(what, policy, aim string, args ...string) error {
	self, err := b.self()
	if err != nil {
		return err
	}
	argv := append([]string{self, "probe"}, args...)
	var took [2][]time.Duration
	for range 5 {
		for i, side := range [][]string{b.wrap(policy, argv...), argv} {
			d, err := measured(side)
			if err != nil {
				return err
			}
			took[i] = append(took[i], d)
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	ours, peer := took[0][2], took[1][2]
	b.rows = append(b.rows, row{what + ", against no sandbox", short(ours), short(peer), times(ours, peer), aim})
	return nil
}

// measured is what a probe printed.
func measured(argv []string) (time.Duration, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("cannot run %q: %w", argv, err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Duration(ns), err
}

// self is this program where it can be seen from inside.
func (b *bench) self() (string, error) {
	path := filepath.Join(b.root, "probe")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, exe, 0o755)
}

func short(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
	return ms(d)
}
