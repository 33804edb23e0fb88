package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// processOf is a process with what tells it from a later one of its pid, in
// field 22 of /proc/PID/stat, after the command's name in parentheses.
func processOf(pid int) (plan.Process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return plan.Process{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	const start = 19 // of the fields from the third on, proc_pid_stat(5)
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= start {
		return plan.Process{}, fmt.Errorf("cannot look at process %d: %d fields", pid, len(fields))
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return plan.Process{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	return plan.Process{PID: pid, StartTicks: ticks}, nil
}

// pidOf is the process that a pidfd is of, as this process counts,
// pidfd_open(2).
func pidOf(pidfd int) (int, error) {
	v, err := lineOf("/proc/self/fdinfo/"+strconv.Itoa(pidfd), "Pid:")
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(v)
	if err != nil || pid <= 0 {
		return 0, errors.New("the descriptor is of no living process")
	}
	return pid, nil
}

// lineOf is what follows a key at the start of a line.
func lineOf(file, key string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read %q: %w", file, err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("cannot read %q: it has no line %s", file, key)
}

// ignoredSignals are what this process ignores, and so the command: bit n-1
// is signal n.
func ignoredSignals() (uint64, error) {
	v, err := lineOf("/proc/self/status", "SigIgn:")
	if err != nil {
		return 0, err
	}
	set, err := strconv.ParseUint(v, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read the ignored signals: %w", err)
	}
	return set, nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// self is the program that runs here, whatever has become of its name.
func self() (plan.File, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		return plan.File{}, fmt.Errorf("cannot look at this program: %w", err)
	}
	return plan.File{Dev: st.Dev, Ino: st.Ino}, nil
}
