package bwrap

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// proc is what /proc/PID/stat says of one process, proc_pid_stat(5).
type proc struct {
	pid   int
	ppid  int
	state byte   // 'T' is stopped
	start uint64 // in clock ticks since boot
}

// The fields of stat after the command's name, which is in parentheses and
// may itself hold any byte, a parenthesis too: field 3 comes first.
const (
	statState = 0
	statPPID  = 1
	statStart = 19
)

func readProc(pid int) (proc, error) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return proc{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	p, err := parseStat(b)
	p.pid = pid
	return p, err
}

func parseStat(b []byte) (proc, error) {
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= statStart {
		return proc{}, fmt.Errorf("cannot read process statistics: %d fields", len(fields))
	}
	ppid, err := strconv.Atoi(fields[statPPID])
	if err != nil {
		return proc{}, fmt.Errorf("cannot read a parent's pid: %w", err)
	}
	start, err := strconv.ParseUint(fields[statStart], 10, 64)
	if err != nil {
		return proc{}, fmt.Errorf("cannot read a start time: %w", err)
	}
	return proc{ppid: ppid, state: fields[statState][0], start: start}, nil
}

// status is what /proc/PID/status says of one process.
type status struct {
	nspid   []string // the pid in each namespace, from ours inward
	seccomp string   // "2": a filter is in force
	filters int
	ignored uint64 // SigIgn
}

func readStatus(pid int) (status, error) {
	b, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return status{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	return parseStatus(string(b))
}

func parseStatus(text string) (status, error) {
	var s status
	var err error
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "NSpid":
			s.nspid = strings.Fields(value)
		case "Seccomp":
			s.seccomp = value
		case "Seccomp_filters":
			s.filters, err = strconv.Atoi(value)
		case "SigIgn":
			s.ignored, err = strconv.ParseUint(value, 16, 64)
		}
		if err != nil {
			return status{}, fmt.Errorf("cannot read process status %s: %w", key, err)
		}
	}
	return s, nil
}

// namespaces are the inodes of a process's namespaces.
func namespaces(pid int) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		var st unix.Stat_t
		if err := unix.Stat(procPath(pid, "ns/"+name), &st); err != nil {
			return nil, fmt.Errorf("cannot look at the %s namespace of process %d: %w", name, pid, err)
		}
		out[name] = st.Ino
	}
	return out, nil
}

// mountTable is what a process sees mounted.
func mountTable(pid int) ([]string, error) {
	f, err := os.Open(procPath(pid, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("cannot look at the mounts of process %d: %w", pid, err)
	}
	defer f.Close()
	return plan.MountTable(f)
}

// bootID tells this boot's pids and start times from another's.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// readLine reads a short file of a process whole, as one line: columns are
// set apart by single spaces, lines by commas.
func readLine(pid int, name string) (string, error) {
	b, err := os.ReadFile(procPath(pid, name))
	if err != nil {
		return "", fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, ","), nil
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
