package seatbelt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ProcessTable lists every process that shows in /proc. sandbox-exec is no
// program of Linux: this is for whoever runs the launch code there, in tests.
func ProcessTable() ([]Proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var out []Proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok, err := LookUp(pid)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// LookUp is one process; ok is false where there is none of that pid.
func LookUp(pid int) (p Proc, ok bool, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(dir + "/stat")
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return Proc{}, false, nil
	}
	if err != nil {
		return Proc{}, false, fmt.Errorf("cannot look up process %d: %w", pid, err)
	}
	// proc_pid_stat(5): the name, in brackets, may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	p = Proc{PID: pid, Ended: f[0] == "Z" || f[0] == "X"}
	p.PPID, _ = strconv.Atoi(f[1])
	p.PGID, _ = strconv.Atoi(f[2])
	p.Start, err = strconv.ParseUint(f[19], 10, 64)
	if st, isStat := info.Sys().(*syscall.Stat_t); isStat {
		p.UID = int(st.Uid)
	}
	return p, err == nil, err
}

// BootID names this boot of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the boot's name: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
