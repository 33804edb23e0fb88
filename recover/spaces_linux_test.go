package recover_test

import (
	"os"
	"os/exec"
	"syscall"
)

// sharedSpace is set in a process that stands for a bubblewrap: which of its
// namespaces its child shares.
const sharedSpace = "PINFOLD_TEST_SHARED"

// sharing is a script for fakeBwrap that gives its child all namespaces of its
// own but one.
func sharing(space string) string { return sharedSpace + "=" + space + " exec " + os.Args[0] }

func init() {
	space := os.Getenv(sharedSpace)
	if space == "" {
		return
	}
	flags := map[string]uintptr{
		"user": syscall.CLONE_NEWUSER, "mnt": syscall.CLONE_NEWNS, "pid": syscall.CLONE_NEWPID, "net": syscall.CLONE_NEWNET,
		"ipc": syscall.CLONE_NEWIPC, "uts": syscall.CLONE_NEWUTS, "cgroup": syscall.CLONE_NEWCGROUP,
	}
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000; true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	for name, flag := range flags {
		if name != space {
			cmd.SysProcAttr.Cloneflags |= flag
		}
	}
	if space != "user" {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Run(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
	}
	os.Exit(1)
}
