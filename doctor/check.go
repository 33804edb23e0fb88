package doctor

import (
	"context"
	"io/fs"
	"slices"
	"strings"
)

// Status is the outcome of a check.
type Status string

// The outcomes, from best to worst. Unknown counts as a failure of the
// machine only in the last row, which does the real thing.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Unknown Status = "unknown" // couldn't tell
	Fail    Status = "fail"
)

// Result is one row.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Code   string `json:"code"` // lower_snake_case; "ok" where nothing is wrong
	Seen   string `json:"seen"` // what was found
	// Fix is what to type, one command a line; "" where nothing is to be done.
	// What can't be typed begins with "# ", so that a shell passes it over.
	Fix string `json:"fix,omitempty"`

	// launched: the row is a launch, which settles what the others suggest.
	launched bool
	// container: the row is about the container tier.
	container bool
}

// Check is one question.
type Check struct {
	Name string
	Run  func(context.Context, *Host) Result
}

// Host is the machine that is asked about.
type Host struct {
	// Root is the file system that facts are read from: "proc/…", "etc/…".
	Root fs.FS
	// Arch is the processor's name in Go's words; UID who asks.
	Arch string
	UID  int
	// Probe asks the kernel; nil where only fixtures are looked at, and then
	// rows that need it are Unknown.
	Probe Prober
	// Mac asks a Mac; nil elsewhere, and where only fixtures are looked at.
	Mac MacProber
	// Options of the command.
	State    string        // state directory, where the kernel's answers are remembered too
	Version  string        // of this program: another one asks again
	Policies []PolicyFound // what the discovery found, in its order
	Path     []string      // PATH

	distro Distribution
	// first is what has to be put right before namespaces can be asked for:
	// bubblewrap, or a user namespace.
	first string
	// helped: a row that failed has said what to do.
	helped bool
}

// PolicyFound is one policy file that discovery looked at.
type PolicyFound struct {
	Path    string
	Used    bool
	Trusted bool
	// Err is why a launch from here is refused: the file has changed since it
	// was trusted, or can't be read.
	Err error
}

// Run asks every check in order and names the rows. It believes nothing that
// was remembered, and has the answers of now remembered.
func Run(ctx context.Context, h *Host, checks []Check) []Result {
	defer h.remembering(false)()
	h.distro = readDistribution(h.Root)
	out := make([]Result, 0, len(checks))
	for _, c := range checks {
		r := c.ask(ctx, h)
		h.helped = h.helped || r.Status == Fail && r.Fix != ""
		out = append(out, r)
	}
	return out
}

func (c Check) ask(ctx context.Context, h *Host) Result {
	r := c.Run(ctx, h)
	r.Name = c.Name
	r.Fix = h.forUser(r.Fix)
	return r
}

// Explain looks for what keeps this machine from holding a process: the first
// row that fails, of those that a launch can't do without. It starts nothing
// of pinfold's own, so a launch that failed may ask.
//
// What the kernel has answered in this boot is recalled; all that a fix could
// have changed since is asked anew. It decides nothing: it words a refusal.
//
// A code in likely is what the failure itself speaks of: where its row fails, an
// earlier one that does may only be what comes of it.
func Explain(ctx context.Context, h *Host, likely ...string) (first Result, found bool) {
	if h.Probe == nil {
		return Result{}, false
	}
	defer h.remembering(true)()
	h.distro = readDistribution(h.Root)
	for _, c := range necessary() {
		r := c.ask(ctx, h)
		switch {
		case r.Status != Fail:
		case len(likely) == 0 || slices.Contains(likely, r.Code):
			return r, true
		case !found:
			first, found = r, true
		}
	}
	return first, found
}

// Verdict is Fail when the process tier can't work. Where launches were tried
// they settle it: a row can't say no where a launch succeeded, nor yes where
// it didn't.
func Verdict(rows []Result) Status {
	launches := slices.DeleteFunc(slices.Clone(rows), func(r Result) bool { return !r.launched })
	all, real := worst(rows), worst(launches)
	switch {
	case len(launches) == 0 || real == Unknown:
		return all
	case real == OK && all != OK:
		return Warn
	}
	return real
}

// badness orders the outcomes.
var badness = map[Status]int{OK: 0, Warn: 1, Unknown: 2, Fail: 3}

func worst(rows []Result) Status {
	w := OK
	for _, r := range rows {
		if badness[r.Status] > badness[w] {
			w = r.Status
		}
	}
	return w
}

// read returns a small file's text without the final newline.
func (h *Host) read(name string) (string, error) {
	b, err := fs.ReadFile(h.Root, name)
	return strings.TrimRight(string(b), "\n\x00"), err
}

// exists reports whether name is there; an error other than "not there"
// counts as there, so that nothing is called missing by mistake.
func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, name)
	return err == nil || !isNotExist(err)
}

func ok(seen string) Result { return Result{Status: OK, Code: "ok", Seen: seen} }

func unknown(code, seen string) Result { return Result{Status: Unknown, Code: code, Seen: seen} }

func fail(code, seen, fix string) Result {
	return Result{Status: Fail, Code: code, Seen: seen, Fix: fix}
}

func warn(code, seen, fix string) Result {
	return Result{Status: Warn, Code: code, Seen: seen, Fix: fix}
}

// words is a fix that can't be typed.
func words(text string) string { return "# " + text }
