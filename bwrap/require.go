package bwrap

import (
	"fmt"
	"strconv"
	"strings"

	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// minVersion is the oldest bubblewrap that has --disable-userns.
var minVersion = [3]int{0, 8, 0}

// alwaysOn are the layers that no launch of this tier goes without, by the
// name that a policy's "require" uses.
var alwaysOn = []string{"userns", "mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "no_userns_inside", "no_capabilities", "no_new_privs", "seccomp"}

// layers lists what holds the boundary on this machine, and what doesn't.
func layers(m Machine, md mediation) []plan.Layer {
	var ls []plan.Layer
	for _, name := range alwaysOn {
		ls = append(ls, plan.Layer{Name: name, State: "on"})
	}
	ls = append(ls, plan.Layer{Name: "seccomp_notify", State: notifyState(m, md)})
	return append(ls,
		landlockLayer("landlock", m.LandlockABI, wire.LandlockABI),
		landlockLayer("landlock_scope", m.LandlockABI, landlockScopeABI))
}

func notifyState(m Machine, md mediation) string {
	if md.notify {
		return "on"
	}
	return "off: " + whyNoNotify(m, md)
}

// whyNoNotify says why connections aren't handed over.
func whyNoNotify(m Machine, md mediation) string {
	if md.mode == seccomp.Unix && m.Notify {
		return "unix_sockets is all, and no host is allowed, so nothing is asked"
	}
	return whyNoSockets(m)
}

// landlockLayer is in force where the kernel's ABI is at least min.
func landlockLayer(name string, abi, min int) plan.Layer {
	switch {
	case abi >= min:
		return plan.Layer{Name: name, State: "on (ABI " + strconv.Itoa(abi) + ")"}
	case abi == 0:
		return plan.Layer{Name: name, State: "off: the kernel has no Landlock"}
	}
	return plan.Layer{Name: name, State: fmt.Sprintf("off: the kernel has Landlock ABI %d, wanted %d", abi, min)}
}

// checkMachine refuses a bubblewrap that lacks what every launch uses.
func checkMachine(m Machine) error {
	if less(m.Version, minVersion) {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "bwrap_too_old", Subject: m.Bwrap.Path,
			Why: fmt.Sprintf("cannot use bubblewrap %s: got %s, wanted 0.8.0 or newer (--disable-userns)", m.Bwrap.Path, m.Bwrap.Version),
			Fix: "install bubblewrap 0.8.0 or newer",
		}
	}
	return nil
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// checkRequire refuses a launch when a layer that the policy insists on isn't
// in force, or isn't known.
func checkRequire(require []string, m Machine, md mediation) error {
	for _, want := range require {
		if why := unmet(want, m, md); why != "" {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "requirement_unmet", Subject: want, Rule: "require",
				Why: fmt.Sprintf("cannot meet requirement %q: %s", want, why),
				Fix: `remove it from "require", or use a machine that has it`,
			}
		}
	}
	return nil
}

// unmet says why a requirement doesn't hold, or "".
func unmet(want string, m Machine, md mediation) string {
	for _, name := range alwaysOn {
		if want == name {
			return ""
		}
	}
	name, min, ok := parseRequirement(want)
	switch {
	case !ok:
		return "no such layer is known"
	case name == "landlock" && m.LandlockABI < max(min, wire.LandlockABI):
		return fmt.Sprintf("got Landlock ABI %d, wanted %d", m.LandlockABI, max(min, wire.LandlockABI))
	case name == "landlock", name == "seccomp_notify" && md.notify:
		return ""
	case name == "cgroup_limits":
		return "" // [Launch.PlaceLimits] asks the machine
	case name == "seccomp_notify":
		return whyNoNotify(m, md)
	}
	return "the process tier has no means for it yet"
}

// parseRequirement splits "landlock>=4"; a bare name asks for the least
// version that is used at all.
func parseRequirement(s string) (name string, min int, ok bool) {
	name, number, versioned := strings.Cut(s, ">=")
	switch name {
	case "landlock":
	case "seccomp_notify", "cgroup_limits":
		return name, 0, !versioned
	default:
		return "", 0, false
	}
	if !versioned {
		return name, wire.LandlockABI, true
	}
	min, err := strconv.Atoi(number)
	return name, min, err == nil && min > 0 && strconv.Itoa(min) == number
}
