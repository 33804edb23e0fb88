package seccomp

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
)

// Mode says which unix sockets the filter lets a command make, and names the
// programs.
type Mode string

// The modes.
const (
	// Base: no unix socket at all, socketpair(2) aside.
	Base Mode = "base"
	// Unix: stream and seqpacket sockets (unix_sockets: all).
	Unix Mode = "unix"
	// Listed: the same sockets, and the one that lists the sandbox's own, for
	// a launch that loads Notify on top (unix_sockets: listed). Alone it is
	// weaker than Base.
	Listed Mode = "listed"
	// Notify is the second program, which the stub loads: it hands connect(2)
	// to the supervisor, and refuses what would go round it.
	Notify Mode = "notify"
	// Inner is the second program in a container, which the stub loads: what the
	// engine's runtime still needs behind the first one.
	Inner Mode = "inner"
)

// Modes are the modes of a launch's first program.
func Modes() []Mode { return []Mode{Base, Listed, Unix} }

// All are all programs.
func All() []Mode { return append(Modes(), Notify, Inner) }

// Arches are the architectures that have a program, as GOARCH names them.
func Arches() []string { return []string{"amd64", "arm64"} }

//go:embed programs/*.bpf
var programs embed.FS

// Program is a filter as the kernel and bwrap --seccomp take it: an array of
// struct sock_filter. The bytes are the caller's own. A filter that doesn't
// exist is an error, never an empty program.
func Program(arch string, mode Mode) ([]byte, error) {
	b, err := programs.ReadFile("programs/" + FileName(arch, mode) + ".bpf")
	if err != nil {
		return nil, fmt.Errorf("cannot find the seccomp program for %q, mode %q: %w", arch, mode, err)
	}
	return b, nil
}

// Digest is the SHA-256 of [Program], in hexadecimal.
func Digest(arch string, mode Mode) (string, error) {
	b, err := Program(arch, mode)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// FileName is a program's file under programs, less the extension.
func FileName(arch string, mode Mode) string { return arch + "_" + string(mode) }
