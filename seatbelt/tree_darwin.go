package seatbelt

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ProcessTable lists every process of this machine: sysctl kern.proc.all,
// which needs no privilege and tells no arguments.
func ProcessTable() ([]Proc, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	out := make([]Proc, 0, len(list))
	for i := range list {
		out = append(out, procOf(&list[i]))
	}
	return out, nil
}

// LookUp is one process; ok is false where there is none of that pid.
func LookUp(pid int) (p Proc, ok bool, err error) {
	// Not SysctlKinfoProc: it takes an empty answer for an error (EIO).
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return Proc{}, false, fmt.Errorf("cannot look up process %d: %w", pid, err)
	}
	if len(list) != 1 || int(list[0].Proc.P_pid) != pid {
		return Proc{}, false, nil
	}
	return procOf(&list[0]), true, nil
}

// zombie is SZOMB of sys/proc.h.
const zombie = 5

func procOf(k *unix.KinfoProc) Proc {
	start := k.Proc.P_starttime
	return Proc{
		PID: int(k.Proc.P_pid), PPID: int(k.Eproc.Ppid), PGID: int(k.Eproc.Pgid), UID: int(k.Eproc.Ucred.Uid),
		Start: uint64(start.Sec)*1e6 + uint64(start.Usec),
		Ended: k.Proc.P_stat == zombie,
	}
}

// BootID names this boot of the machine.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("cannot read the boot's name: %w", err)
	}
	return id, nil
}
