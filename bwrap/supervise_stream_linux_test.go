package bwrap_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"pinfold/bwrap"
	"pinfold/policy"
)

// A directory as a standard stream is a way to every file of the host: the
// mounts inside don't lie on it.
func TestDirectoryAsStreamIsRefused(t *testing.T) {
	t.Parallel()
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, s := range map[string]bwrap.Streams{"input": {Stdin: dir}, "output": {Stdout: dir}, "error": {Stderr: dir}} {
		p, err := bwrap.Start(t.Context(), realLaunch(t, command("exit 0")), bwrap.StartOptions{Streams: s})
		if err == nil {
			_, _ = p.Wait()
		}
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "stream_is_directory" {
			t.Errorf("standard %s: got %v", name, err)
		}
	}
	p, err := bwrap.Start(t.Context(), realLaunch(t, command("exit 0")), bwrap.StartOptions{})
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Errorf("control: %+v, %v", e, err)
	}
}

// A connection of the host's network as standard streams works, and isn't what
// the command has: with the socket itself it could reach another host.
func TestConnectionAsStream(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer here.Close()
	conn, err := ln.Accept()
	must(t, err)
	file, err := conn.(*net.TCPConn).File() //nolint:forcetypeassert // TCP
	must(t, err)
	conn.Close()
	defer file.Close()
	_, err = here.Write([]byte("question\n"))
	must(t, err)
	const script = `read -r x; echo "answer to $x"; python3 -c 'import socket; print(socket.socket(fileno=0).family.name)'`
	p, err := bwrap.Start(t.Context(), realLaunch(t, command(script)), bwrap.StartOptions{Streams: bwrap.Streams{Stdin: file, Stdout: file, Stderr: file}})
	must(t, err)
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	file.Close()
	if got, err := io.ReadAll(here); err != nil || string(got) != "answer to question\nAF_UNIX\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
