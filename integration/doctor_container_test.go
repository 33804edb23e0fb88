//go:build linux

package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// containers are what docker makes of its options, in the words of the OCI
// runtime specification. Docker itself isn't needed for one: runc(8), which it runs them with, is enough.
var containers = map[string]struct {
	caps     []string
	filtered bool // docker's default profile, where CAP_SYS_ADMIN is missing
	masked   bool // systempaths
}{
	"default":            {dockerCaps, true, true},
	"seccomp=unconfined": {dockerCaps, false, true},
	"as doctor says":     {dockerCaps, false, false},
	"privileged":         {append([]string{"CAP_SYS_ADMIN"}, dockerCaps...), false, false},
}

// dockerCaps, maskedPaths and readonlyPaths are those of moby's oci package
// (DefaultCapabilities, DefaultSpec).
var dockerCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

var (
	maskedPaths   = []string{"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// container lays out a bundle and returns what runs a shell in it. The
// system's directories are this machine's, and the lab is at its own path.
func (l *lab) container(t *testing.T, kind string) []string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("no runc to make a container with")
	}
	bundle := l.root + "/bundle"
	mkdir(t, bundle+"/rootfs")
	write(t, bundle+"/rootfs/.dockerenv", "", 0o644)
	mounts := []doc{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "strictatime", "mode=755"}},
		{"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666"}},
		{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "noexec", "nodev", "ro"}},
		{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=1777"}},
		bind(filepath.Dir(built.pinfold), "ro"), bind(l.root, "rw"), // the lab may lie beneath
		bind("/usr", "ro"), bind("/etc", "ro"),
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		if target, err := os.Readlink(dir); err == nil {
			must(t, os.Symlink(target, bundle+"/rootfs"+dir))
		} else if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, bind(dir, "ro"))
		}
	}
	text, err := json.Marshal(l.spec(kind, mounts))
	must(t, err)
	write(t, bundle+"/config.json", string(text), 0o644)
	id := filepath.Base(l.root)
	return []string{runc, "--root", l.root + "/runc", "run", "--bundle", bundle, id}
}

func bind(dir, mode string) doc {
	return doc{"destination": dir, "type": "bind", "source": dir, "options": []string{"rbind", mode}}
}

// spec is the bundle's configuration.
func (l *lab) spec(kind string, mounts []doc) doc {
	c := containers[kind]
	linux := doc{"namespaces": []doc{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}}
	if c.masked {
		linux["maskedPaths"], linux["readonlyPaths"] = maskedPaths, readonlyPaths
	}
	if c.filtered {
		const eperm, enosys = 1, 38
		linux["seccomp"] = doc{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []doc{
			{"names": []string{"unshare", "setns", "mount", "umount2", "pivot_root", "fsopen", "fsmount", "move_mount", "open_tree", "mount_setattr"}, "action": "SCMP_ACT_ERRNO", "errnoRet": eperm},
			{"names": []string{"clone"}, "action": "SCMP_ACT_ERRNO", "errnoRet": eperm, "args": []doc{{"index": 0, "value": unix.CLONE_NEWUSER, "valueTwo": unix.CLONE_NEWUSER, "op": "SCMP_CMP_MASKED_EQ"}}},
			{"names": []string{"clone3"}, "action": "SCMP_ACT_ERRNO", "errnoRet": enosys},
		}}
	}
	return doc{
		"ociVersion": "1.0.2", "hostname": "lab", "root": doc{"path": "rootfs"}, "mounts": mounts, "linux": linux,
		"process": doc{
			"args": []string{"/bin/sh"}, "cwd": l.root, "user": doc{"uid": 0, "gid": 0}, "env": append(l.env(), "PATH="+l.root+"/tools:"+os.Getenv("PATH")),
			"capabilities": doc{"bounding": c.caps, "effective": c.caps, "permitted": c.caps},
		},
	}
}
