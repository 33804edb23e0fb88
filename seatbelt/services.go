package seatbelt

import "strings"

// service is one rule that every launch has, and why.
type service struct {
	why  string
	rule string
	// ordinary: not for root, who could change the machine by it.
	ordinary bool
}

// services are the rules without which ordinary programs don't run. What is
// not here is refused: keychain items (com.apple.SecurityServer,
// com.apple.securityd), the clipboard (com.apple.pasteboard.1), Apple Events
// (com.apple.coreservices.appleevents), opening programs by Launch Services
// (com.apple.coreservices.launchservicesd, lsopen), screen and input
// (com.apple.windowserver.active, IOHIDSystem), preferences (cfprefsd), file
// system events, which name files that can't be read (com.apple.FSEvents).
var services = []service{
	{why: "programs start programs", rule: "(allow process-fork)"},
	{why: "signals and process information stay inside", rule: "(allow signal (target self) (target same-sandbox))"},
	{why: "ps and job control look at the run's own processes", rule: "(allow process-info* (target self) (target same-sandbox))"},
	{why: "users and groups: getpwnam(3), id(1)", rule: names("mach-lookup", "global-name",
		"com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership")},
	{why: "notify(3): time zone and network changes, which libc itself waits for; posting is denied above", rule: names("mach-lookup", "global-name",
		"com.apple.system.notification_center")},
	{why: "syslog(3) and os_log: writing only", rule: names("mach-lookup", "global-name",
		"com.apple.system.logger", "com.apple.logd")},
	{why: "confstr(3) for the per-user directories", rule: names("mach-lookup", "global-name", "com.apple.bsd.dirhelper")},
	{
		why:  "network configuration, to read; Rust's system-configuration crate panics without it. root could change it",
		rule: names("mach-lookup", "global-name", "com.apple.SystemConfiguration.configd"), ordinary: true,
	},
	{why: "POSIX semaphores, which hold a number and no data: Python's multiprocessing", rule: "(allow ipc-posix-sem)"},
	{why: "notify(3) reads its page", rule: `(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))`},
	{
		why:  "shared memory of run-times by their names alone: the namespace is the whole machine's, and other programs' would be open",
		rule: names("ipc-posix-shm-read* ipc-posix-shm-write*", "ipc-posix-name-prefix", sharedMemory...),
	},
	{
		why:  "hardware and version facts; not kern.proc*, which shows other processes' arguments",
		rule: names("sysctl-read", "sysctl-name", sysctls...),
	},
	{
		why:  "processor features, by prefix since each chip adds some",
		rule: names("sysctl-read", "sysctl-name-prefix", "hw.optional.", "hw.perflevel", "machdep.cpu."),
	},
	{
		why:  "the addresses of this machine: getifaddrs(3), which Node and dev servers ask at start",
		rule: names("sysctl-read", "sysctl-name-prefix", "net.routetable."),
	},
	{
		why:  "Java and V8 ask about the processor by writing to these, which changes nothing",
		rule: names("sysctl-write", "sysctl-name", "kern.grade_cputype", "kern.tcsm_enable"),
	},
	{
		why:  "socket options: every network library. Older systems have no such operation",
		rule: "(if (defined? 'socket-option-get) (allow socket-option-get socket-option-set))",
	},
	{why: "pseudo-terminals", rule: "(allow pseudo-tty)"},
}

// sysctls are the names that language run-times and libc read at start.
var sysctls = []string{
	"hw.activecpu", "hw.byteorder", "hw.cacheconfig", "hw.cachelinesize", "hw.cachelinesize_compat", "hw.cachesize",
	"hw.cpufamily", "hw.cpufrequency", "hw.cpusubfamily", "hw.cpusubtype", "hw.cputype", "hw.l1dcachesize",
	"hw.l1icachesize", "hw.l2cachesize", "hw.l3cachesize", "hw.logicalcpu", "hw.logicalcpu_max", "hw.machine",
	"hw.memsize", "hw.model", "hw.ncpu", "hw.nperflevels", "hw.packages", "hw.pagesize", "hw.pagesize_compat",
	"hw.physicalcpu", "hw.physicalcpu_max", "hw.tbfrequency", "hw.vectorunit",
	"hw.busfrequency_compat", "hw.cpufrequency_compat", "hw.l1dcachesize_compat", "hw.l1icachesize_compat",
	"hw.l2cachesize_compat", "hw.l3cachesize_compat", "hw.tbfrequency_compat",
	"kern.maxfiles", "kern.tcsm_available", "kern.tcsm_enable", "kern.willshutdown",
	"machdep.ptrauth_enabled", "security.mac.lockdown_mode_state",
	"kern.argmax", "kern.boottime", "kern.clockrate", "kern.hostname", "kern.iossupportversion", "kern.maxfilesperproc", "kern.maxproc",
	"kern.ngroups", "kern.osproductversion", "kern.osrelease", "kern.ostype", "kern.osvariant_status", "kern.osversion",
	"kern.secure_kernel", "kern.usrstack64", "kern.version",
	"sysctl.proc_cputype", "sysctl.proc_native", "vm.loadavg", "vm.pagesize",
}

// systemRoots are the operating system's own trees ("read.base": "system").
var systemRoots = []string{
	"/System", "/Library", "/usr", "/bin", "/sbin", "/opt", "/private/etc", "/private/var/db/dyld",
	"/private/var/db/timezone", "/Applications/Xcode.app",
	// Where xcrun(1), which git, make and cc are on a Mac, looks for its tools.
	"/private/var/select", "/private/var/db/xcode_select_link",
	// Rosetta's translations of programs for Intel.
	"/private/var/db/oah",
}

// loaderRoots are what dyld maps before any program's first instruction
// ("read.base": "none"); without them nothing starts.
var loaderRoots = []string{
	"/usr/lib", "/System/Library/Frameworks", "/System/Library/PrivateFrameworks", "/System/Library/dyld",
	"/System/Volumes/Preboot/Cryptexes/OS", "/System/Cryptexes/OS", "/private/var/db/dyld",
	"/Library/Apple/usr/libexec/oah", "/private/var/db/oah",
}

// otherNames: see [closed].
var otherNames = []string{
	"/System/Volumes/Data", "/.vol", "/Volumes/.timemachine", "/Volumes/com.apple.TimeMachine.localsnapshots",
}

// sharedMemory begin the names that Python (shared_memory), PyTorch, OpenMP
// and PostgreSQL give theirs.
var sharedMemory = []string{"/psm_", "/torch_", "/__KMP_REGISTERED_LIB_", "/PostgreSQL."}

// hostTemporary are directories that programs of every kind share.
var hostTemporary = []string{"/private/tmp", "/private/var/tmp", "/private/var/folders"}

// readWriteDevices may be opened by anyone and keep nothing.
var readWriteDevices = []string{"/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/dtracehelper"}

// readDevices are read only.
var readDevices = []string{"/dev/random", "/dev/urandom", "/dev/autofs_nowait"}

// names writes (allow op (filter "a" "b" …)); a filter by prefix once for each,
// since no public profile has several in one.
func names(op, filter string, list ...string) string {
	between := " "
	if strings.HasSuffix(filter, "-prefix") {
		between = ") (" + filter + " "
	}
	quoted := make([]string, 0, len(list))
	for _, n := range list {
		quoted = append(quoted, quote(n))
	}
	return "(allow " + op + " (" + filter + " " + strings.Join(quoted, between) + "))"
}
