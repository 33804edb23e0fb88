package sbpl

import "strings"

// Covers reports whether a rule for the operation named by pattern applies to
// op, a concrete operation. "default" covers everything; a trailing "*"
// covers every operation whose name starts with what stands before it, and a
// plain name covers itself and, as with process-exec and
// process-exec-interpreter, nothing else.
func Covers(pattern, op string) bool {
	if pattern == "default" || pattern == op {
		return true
	}
	stem, wild := strings.CutSuffix(pattern, "*")
	if !wild && strings.HasPrefix(op, pattern) { // a map is slow to ask, and most rules are about something else
		stem, wild = strings.CutSuffix(groups[pattern], "*")
	}
	return wild && strings.HasPrefix(op, stem) && boundary(stem, op)
}

// groups are names without a star that stand for every operation beneath: the
// profiles that ship with macOS, and public ones, write them so.
var groups = map[string]string{"ipc-posix-sem": "ipc-posix-sem*", "ipc-posix-shm": "ipc-posix-shm*"}

// outsideDefault are the operations that (deny default) is said not to reach.
// The first line is what Firefox's profiles say so of, and deny one by one;
// those of the second and third are denied one by one after a (deny default)
// in profiles that macOS ships; of the last a report says that not even a deny
// by their own name holds, so that the system calls have to be denied.
var outsideDefault = []string{ //nolint:gochecknoglobals // a table
	"process-info*", "nvram*", "iokit-get-properties", "file-map-executable",
	"file-link", "file-clone", "socket-option*", "syscall*", "system-fcntl", "dynamic-code-generation",
	"darwin-notification-post", "fs-snapshot*", "process-codesigning*",
	"ipc-sysv*",
}

// OutsideDefault reports whether op is one that (deny default) may not reach.
func OutsideDefault(op string) bool {
	for _, pattern := range outsideDefault {
		if Covers(pattern, op) {
			return true
		}
	}
	return false
}

// boundary keeps "file-read*" from covering an operation such as
// "file-readable": what follows the stem is nothing, or starts with "-".
func boundary(stem, op string) bool {
	rest := op[len(stem):]
	return rest == "" || rest[0] == '-'
}

// specificity orders operation patterns: a longer stem is more specific, a
// plain name more than any wildcard, and "default" is least.
func specificity(pattern string) int {
	if pattern == "default" {
		return 0
	}
	if stem, wild := strings.CutSuffix(pattern, "*"); wild {
		return 1 + len(stem)
	}
	return 1000 + len(pattern)
}

// operations are the concrete operations that the parser knows; a profile
// with any other name is refused, since a misspelt deny denies nothing. The
// list follows the operation names in the profiles that macOS ships.
var operations = map[string]bool{
	"appleevent-send": true, "authorization-right-obtain": true, "device-camera": true, "device-microphone": true,
	"darwin-notification-post": true, "distributed-notification-post": true, "dynamic-code-generation": true,
	"file-chroot": true, "file-clone": true, "file-ioctl": true, "file-issue-extension": true, "file-link": true,
	"file-lock": true, "file-map-executable": true, "file-mknod": true, "file-mount": true, "file-mount-update": true,
	"file-mount-umount": true, "file-read-data": true, "file-read-metadata": true, "file-read-xattr": true,
	"file-revoke": true, "file-search": true, "file-test-existence": true, "file-unmount": true,
	"file-write-acl": true, "file-write-create": true, "file-write-data": true, "file-write-flags": true,
	"file-write-mode": true, "file-write-mount": true, "file-write-owner": true, "file-write-setugid": true,
	"file-write-times": true, "file-write-umount": true, "file-write-unlink": true, "file-write-xattr": true,
	"fs-snapshot-create": true, "fs-snapshot-delete": true, "fs-snapshot-mount": true, "fs-snapshot-revert": true,
	"generic-issue-extension": true, "hid-control": true,
	"iokit-get-properties": true, "iokit-issue-extension": true, "iokit-open": true, "iokit-set-properties": true,
	"iokit-open-service": true, "iokit-open-user-client": true,
	"ipc-posix-issue-extension": true, "ipc-posix-sem": true, "ipc-posix-sem-create": true, "ipc-posix-sem-open": true,
	"ipc-posix-sem-post": true, "ipc-posix-sem-unlink": true, "ipc-posix-sem-wait": true,
	"ipc-posix-shm-read-data": true, "ipc-posix-shm-read-metadata": true, "ipc-posix-shm-write-create": true,
	"ipc-posix-shm-write-data": true, "ipc-posix-shm-write-unlink": true,
	"ipc-sysv-msg": true, "ipc-sysv-sem": true, "ipc-sysv-shm": true,
	"job-creation": true, "load-unsigned-code": true, "lsopen": true,
	"mach-bootstrap": true, "mach-cross-domain-lookup": true, "mach-derive-port": true, "mach-host-exception-port-set": true,
	"mach-host-special-port-set": true, "mach-issue-extension": true, "mach-kernel-endpoint": true, "mach-lookup": true,
	"mach-message-send": true, "mach-per-user-lookup": true, "mach-priv-host-port": true, "mach-priv-task-port": true,
	"mach-register": true, "mach-task-exception-port-set": true, "mach-task-name": true, "mach-task-special-port-set": true,
	"managed-preference-read": true, "necp-client-open": true,
	"network-bind": true, "network-inbound": true, "network-outbound": true,
	"nvram-delete": true, "nvram-get": true, "nvram-set": true,
	"process-codesigning-status-get": true, "process-codesigning-status-set": true,
	"process-exec": true, "process-exec-interpreter": true, "process-exec-update-label": true, "process-fork": true,
	"process-info-codesignature": true, "process-info-dirtycontrol": true, "process-info-ledger": true,
	"process-info-listpids": true, "process-info-pidfdinfo": true, "process-info-pidfileportinfo": true,
	"process-info-pidinfo": true, "process-info-rusage": true, "process-info-setcontrol": true,
	"process-legacy-codesigning-status-get": true,
	"pseudo-tty":                            true, "qtn-download": true, "qtn-sandbox": true, "qtn-user": true, "sandbox-check": true, "signal": true,
	"socket-ioctl": true, "socket-option-get": true, "socket-option-set": true, "syscall-mach": true, "syscall-mig": true, "syscall-unix": true,
	"sysctl-read": true, "sysctl-write": true,
	"system-acct": true, "system-audit": true, "system-automount": true, "system-chud": true, "system-debug": true,
	"system-fcntl": true, "system-fsctl": true, "system-info": true, "system-kas-info": true, "system-kext-load": true,
	"system-kext-query": true, "system-kext-unload": true, "system-lcid": true, "system-mac-label": true,
	"system-mac-syscall": true, "system-necp-client-action": true, "system-nfssvc": true, "system-package-check": true,
	"system-pcap": true, "system-privilege": true, "system-reboot": true, "system-sched": true, "system-set-time": true,
	"system-socket": true, "system-suspend-resume": true, "system-swap": true, "system-write-bootstrap": true,
	"user-preference-read": true, "user-preference-write": true, "volume": true,
}

// knownPattern reports whether pattern names at least one known operation.
func knownPattern(pattern string) bool {
	if pattern == "default" || operations[pattern] || groups[pattern] != "" {
		return true
	}
	if !strings.HasSuffix(pattern, "*") {
		return false
	}
	for op := range operations {
		if Covers(pattern, op) {
			return true
		}
	}
	return false
}
