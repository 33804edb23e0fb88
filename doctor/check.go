package doctor

import (
	"context"
	"io/fs"
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
	Fix string `json:"fix,omitempty"`
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
	// Options of the command.
	State    string        // state directory
	Policies []PolicyFound // what the discovery found, in its order
	Path     []string      // PATH

	distro Distribution
	// noUserns: the row on user namespaces failed, so what needs one can't
	// be asked.
	noUserns bool
}

// PolicyFound is one policy file that discovery looked at.
type PolicyFound struct {
	Path    string
	Used    bool
	Trusted bool
}

// Run asks every check in order and names the rows.
func Run(ctx context.Context, h *Host, checks []Check) []Result {
	h.distro = readDistribution(h.Root)
	out := make([]Result, 0, len(checks))
	for _, c := range checks {
		r := c.Run(ctx, h)
		r.Name = c.Name
		if r.Code == "" {
			r.Code = "ok"
		}
		out = append(out, r)
	}
	return out
}

// Verdict is the worst that matters: Fail when the process tier can't work.
func Verdict(rows []Result) Status {
	worst := OK
	for _, r := range rows {
		switch {
		case r.Status == Fail:
			return Fail
		case r.Status == Unknown:
			worst = Unknown
		case r.Status == Warn && worst == OK:
			worst = Warn
		}
	}
	return worst
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

func ok(seen string) Result { return Result{Status: OK, Seen: seen} }

func unknown(code, seen string) Result { return Result{Status: Unknown, Code: code, Seen: seen} }

func fail(code, seen, fix string) Result {
	return Result{Status: Fail, Code: code, Seen: seen, Fix: fix}
}

func warn(code, seen, fix string) Result {
	return Result{Status: Warn, Code: code, Seen: seen, Fix: fix}
}
