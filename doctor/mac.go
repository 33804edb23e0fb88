package doctor

import (
	"context"
	"strconv"
	"strings"
)

// MacProber asks a Mac what no file tells.
type MacProber interface {
	// Version is that of macOS: "15.1".
	Version() (string, error)
	// Translated: this program runs under Rosetta.
	Translated() (bool, error)
	// SandboxExec looks at the program that applies profiles.
	SandboxExec() error
	// Apply runs /usr/bin/true under a profile that allows everything: whether
	// a profile can be applied at all, which it can't inside another sandbox.
	Apply(ctx context.Context) error
	// Integrity is what csrutil(8) says of System Integrity Protection.
	Integrity(ctx context.Context) (string, error)
	// Admin: the user may read the system's log, where refusals are.
	Admin() (bool, error)
	// Launch runs true through exactly the code that wrap uses.
	Launch(ctx context.Context, policy string) error
}

// MacChecks are the rows of a Mac, in order.
func MacChecks() []Check {
	return []Check{
		{"system", mac(checkMacSystem)},
		{"architecture", mac(checkMacArchitecture)},
		{"sandbox-exec", mac(checkSandboxExec)},
		{"profiles", mac(checkApply)},
		{"system integrity", mac(checkIntegrity)},
		{"system log", mac(checkAdmin)},
		{"state directory", checkState},
		{"policy files", checkPolicies},
		{"PATH", checkShadows},
		{"launch: empty policy", mac(macLaunch(`{"version": 1}`))},
		{"launch: grants", mac(macLaunch(macGrants))},
	}
}

// macGrants uses a write grant, a deny that isn't there yet and a host.
const macGrants = `{"version": 1, "write": ["{workspace}"], "read": {"deny": ["{workspace}/denied"]}, "network": {"allow": ["example.com:443"]}}`

// mac is a row that needs somebody to ask.
func mac(check func(context.Context, *Host) Result) func(context.Context, *Host) Result {
	return func(ctx context.Context, h *Host) Result {
		if h.Mac == nil {
			return unknown("mac_unknown", "the system was not asked")
		}
		return check(ctx, h)
	}
}

// oldestMac is the oldest version whose operation names the profile uses.
const oldestMac = 13

// checkMacSystem: nobody has run this back end on a Mac yet, and it says so
// until somebody has.
func checkMacSystem(_ context.Context, h *Host) Result {
	version, err := h.Mac.Version()
	if err != nil {
		return unknown("mac_unknown", err.Error())
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil:
		return unknown("mac_unknown", "macOS "+version)
	case n < oldestMac:
		return warn("mac_old", "macOS "+version+" is older than the profiles are written for ("+strconv.Itoa(oldestMac)+")", "")
	}
	return warn("mac_untested", "macOS "+version+"; this back end hasn't been run on a Mac by its makers", "scripts/mac-acceptance")
}

func checkMacArchitecture(_ context.Context, h *Host) Result {
	translated, err := h.Mac.Translated()
	switch {
	case err != nil:
		return unknown("mac_unknown", err.Error())
	case translated:
		return warn("mac_translated", "this pinfold is for Intel and runs under Rosetta, which is slow to start", "GOARCH=arm64 make build")
	}
	return ok(h.Arch)
}

func checkSandboxExec(_ context.Context, h *Host) Result {
	if err := h.Mac.SandboxExec(); err != nil {
		return refused(err, "sandbox_exec_missing", "")
	}
	return ok("/usr/bin/sandbox-exec")
}

func checkApply(ctx context.Context, h *Host) Result {
	if err := h.Mac.Apply(ctx); err != nil {
		return fail("sandbox_exec_failed", "no profile can be applied: "+err.Error(), "# start pinfold outside of any other sandbox")
	}
	return ok("sandbox-exec ran true")
}

// checkIntegrity: without it anybody with root rights can replace sandbox-exec
// and log, and loader variables work in them.
func checkIntegrity(ctx context.Context, h *Host) Result {
	status, err := h.Mac.Integrity(ctx)
	switch {
	case err != nil:
		return unknown("sip_unknown", err.Error())
	case strings.Contains(status, "enabled"):
		return ok(status)
	}
	return warn("sip_disabled", status, "# in the recovery system: csrutil enable")
}

func checkAdmin(_ context.Context, h *Host) Result {
	admin, err := h.Mac.Admin()
	switch {
	case err != nil:
		return unknown("log_unknown", err.Error())
	case !admin:
		return warn("log_unreadable", "only an administrator may read the log, so events tell of no refused paths (they are refused all the same)", "")
	}
	return ok("refusals can be read")
}

func macLaunch(document string) func(context.Context, *Host) Result {
	return func(ctx context.Context, h *Host) Result { return h.launched(h.Mac.Launch(ctx, document)) }
}
