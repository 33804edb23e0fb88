package main_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// notifyOn is a filter that hands one call to the supervisor.
func notifyOn(number uint32) []byte {
	var b []byte
	for _, in := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		b = binary.NativeEndian.AppendUint16(b, in.Code)
		b = append(b, in.Jt, in.Jf)
		b = binary.NativeEndian.AppendUint32(b, in.K)
	}
	return b
}

// The second filter's listener comes with Hello, last, and answers what the command
// calls.
func TestFilterListenerIsHandedOut(t *testing.T) {
	t.Parallel()
	s := command("mkdir", "/tmp/x")
	s.setup.Filter = notifyOn(unix.SYS_MKDIRAT)
	if unix.SYS_MKDIRAT == 258 { // amd64's mkdir(1) calls the older one
		s.setup.Filter = notifyOn(83)
	}
	s.setup.Listen = []string{"127.0.0.1:3128"}
	s.setup.Sockets = []wire.Socket{{Domain: unix.AF_INET, Type: unix.SOCK_DGRAM}, {Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW}}
	answered := make(chan error, 1)
	s.onHello = func(t testing.TB, fds []int) {
		if len(fds) != 4 {
			t.Fatalf("%d descriptors, wanted the listener's, two sockets and the filter's", len(fds))
		}
		for i, want := range []int{unix.AF_INET, unix.AF_INET, unix.AF_NETLINK} {
			if got, err := unix.GetsockoptInt(fds[i], unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || got != want {
				t.Errorf("descriptor %d is of domain %d (%v), wanted %d", i, got, err, want)
			}
		}
		go func() { answered <- answerOne(fds[3], unix.ENOANO) }()
	}
	r := s.ran(t)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.stderr, "No anode") {
		t.Errorf("stderr %q, wanted the supervisor's answer", r.stderr)
	}
}

// answerOne answers the next notification with an error, seccomp_unotify(2).
func answerOne(fd int, answer unix.Errno) error {
	var request struct {
		id         uint64
		pid, flags uint32
		data       [64]byte
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	response := struct {
		id           uint64
		value        int64
		error, flags int32
	}{id: request.id, error: -int32(answer)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&response))); errno != 0 {
		return errno
	}
	return nil
}

func TestFilterRefuses(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"half an instruction": {6, 0, 0, 0},
		"too long":            make([]byte, 8*4097),
		"no return":           make([]byte, 8),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := command("true")
			s.setup.Filter = b
			s.refused(t, wire.StepFilter)
		})
	}
}
