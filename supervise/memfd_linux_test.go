package supervise_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// A file that was filled can be read and not be changed.
func TestMemfd(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("x"), 100_000)
	fd, err := supervise.Memfd("test", want)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got := make([]byte, len(want)+1)
	if n, err := unix.Read(fd, got); err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if _, err := unix.Pwrite(fd, want[:1], 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("a write: %v, want EPERM", err)
	}
}

// A page that somebody holds for longer than the kernel waits, 150 ms, doesn't
// end a launch.
func TestSealWaits(t *testing.T) {
	t.Parallel()
	fd, err := supervise.NewMemfd("test")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	free := hold(t, fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("the page isn't held: %v", err)
	}
	time.AfterFunc(400*time.Millisecond, free)
	if err := supervise.Seal(fd, unix.F_SEAL_WRITE); err != nil {
		t.Error(err)
	}
}

// hold keeps a page of a file in a pipe until it is freed, vmsplice(2).
func hold(t *testing.T, fd int) (free func()) {
	t.Helper()
	size := os.Getpagesize()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	iov := unix.Iovec{Base: unsafe.SliceData(page), Len: uint64(size)}
	if n, err := unix.Vmsplice(pipe[1], []unix.Iovec{iov}, 0); err != nil || n != size {
		t.Fatalf("vmsplice: %d, %v", n, err)
	}
	if err := unix.Munmap(page); err != nil {
		t.Fatal(err)
	}
	return func() {
		unix.Close(pipe[0])
		unix.Close(pipe[1])
	}
}

// A program that was filled runs by its descriptor, and can't be changed.
func TestFillProgram(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip(err)
	}
	fd, err := supervise.FillProgram("test", func(w io.Writer) (int64, error) {
		n, err := w.Write(program)
		return int64(n), err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "test")
	defer f.Close()
	if b, err := os.ReadFile("/proc/sys/vm/memfd_noexec"); err == nil && string(b) == "2\n" {
		t.Skip("this machine executes no such file")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Run(); err != nil {
		t.Errorf("it doesn't run: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it could be changed")
	}
}
