package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

const namePrefix = "pinfold-"

// Name is a name for a tree that this process makes. It tells whether its
// maker is still there: by pid and start time, in clock ticks since boot.
func Name(start string) string {
	var b [4]byte
	rand.Read(b[:]) //nolint:errcheck // never fails (crypto/rand)
	return fmt.Sprintf("%s%d-%s-%x", namePrefix, os.Getpid(), start, b)
}

// sweep takes away the cgroups that a killed program left beside the new one.
// What runs in one, or belongs to another pid namespace and is used, is busy
// and stays.
func (p *Place) sweep(parent string) {
	for _, name := range p.stale(parent) {
		_ = p.kernel.Remove(path.Join(parent, name)) // busy, or somebody was faster
	}
}

// stale are the names in parent whose makers are no more.
func (p *Place) stale(parent string) []string {
	var names []string
	for _, name := range p.kernel.List(parent) {
		fields := strings.Split(name, "-")
		if !strings.HasPrefix(name, namePrefix) || len(fields) != 4 {
			continue
		}
		if start, err := startOf(p.kernel, fields[1]); err != nil && !errors.Is(err, fs.ErrNotExist) || start == fields[2] {
			continue
		}
		names = append(names, name)
	}
	return names
}

// startOf is when a process started: field 22 of proc_pid_stat(5). The name
// of the program, in parentheses, may hold anything.
func startOf(k Kernel, pid string) (string, error) {
	text, err := k.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", errors.New("cannot read when a process started")
	}
	return fields[19], nil
}
