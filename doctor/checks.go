package doctor

// Checks are the rows, in order.
func Checks() []Check {
	return []Check{
		{"system", checkSystem},
		{"kernel", checkKernel},
		{"architecture", checkArchitecture},
		{"container", checkContainer},
		{"user mapping", checkMapping},
		{"mounts", checkMounts},
		{"bubblewrap", checkBubblewrap},
		{"user namespaces", checkUserNamespaces},
		{"namespaces", checkNamespaces},
		{"fresh /proc", checkProc},
		{"system calls", checkSyscalls},
		{"seccomp", checkSeccomp},
		{"egress", checkEgress},
		{"yama", checkYama},
		{"selinux", checkSELinux},
		{"landlock", checkLandlock},
		{"cgroups", checkCgroup},
		{"terminal", checkTIOCSTI},
		{"WSL interop", checkWSLInterop},
		{"state directory", checkState},
		{"policy files", checkPolicies},
		{"PATH", checkShadows},
		Launch("launch: empty policy", `{"version": 1}`),
		{"launch: grants", checkGrants},
	}
}

// necessary are the rows that no launch can do without, and that start none.
func necessary() []Check {
	return []Check{
		{"system", checkSystem},
		{"architecture", checkArchitecture},
		{"user mapping", checkMapping},
		{"mounts", checkMounts},
		{"bubblewrap", checkBubblewrap},
		{"user namespaces", checkUserNamespaces},
		{"namespaces", checkNamespaces},
		{"fresh /proc", checkProc},
		{"system calls", checkSyscalls},
		{"seccomp", checkSeccomp},
		{"landlock", checkLandlock},
	}
}
