package recover

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"pinfold/bwrap"
)

// stranded ends the processes of launches whose bubblewrap was killed, with
// their supervisor, between making its child and letting that go: it waits
// forever then. Nobody's record names such a one, for it is none of the
// sandbox's yet; what it is shows in what it runs, and in that no bubblewrap
// is its parent any more.
func (r *reaper) stranded() {
	entries, err := os.ReadDir("/proc")
	r.errs = append(r.errs, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		switch did, err := r.unstrand(pid); {
		case err != nil && !errors.Is(err, errGone):
			r.errs = append(r.errs, err)
		case did && err == nil:
			r.did(KindProcess, e.Name())
		}
	}
}

// unstrand looks at the command line first, which nearly all aren't theirs by.
func (r *reaper) unstrand(pid int) (bool, error) {
	if !isWrapping(pid) {
		return false, nil
	}
	p, err := hold(pid)
	if err != nil {
		return false, err
	}
	defer p.close()
	if is, err := p.isStranded(); err != nil || !is {
		return false, err
	}
	if !isWrapping(pid) || p.alive() != nil {
		return false, nil
	}
	if r.o.DryRun {
		return true, nil
	}
	if err := p.kill(); err != nil {
		return false, err
	}
	if !p.endsWithin(dyingTime) {
		return false, fmt.Errorf("cannot end process %d, which its bubblewrap left behind", pid)
	}
	return true, nil
}

// isWrapping reports whether a process was called as a launch calls
// bubblewrap. What can't be read is none of this user's.
func isWrapping(pid int) bool {
	argv, err := commandLine(pid)
	return err == nil && len(argv) == 5 && argv[1] == "--args" && argv[3] == "--" && (argv[4] == bwrap.StubFile || argv[4] == bwrap.StubPath)
}

func commandLine(pid int) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), err
}

// isStranded: it is the first process of a pid namespace, as this user, and
// its parent isn't the bubblewrap that it was forked from.
func (p *process) isStranded() (bool, error) {
	uid, err := p.uid()
	if me := os.Geteuid(); err != nil || uid != me && me != 0 {
		return false, err
	}
	first, err := p.isFirst()
	if err != nil || !first || p.ppid == 0 || p.state == 'Z' || p.state == 'X' {
		return false, err
	}
	if _, err := commandLine(p.ppid); err != nil && p.ppid != 1 {
		return false, nil //nolint:nilerr // hidden, so nobody can tell
	}
	return !isWrapping(p.ppid), nil
}

// isFirst reports whether it is the first process of a pid namespace below
// this one's.
func (p *process) isFirst() (bool, error) {
	status, err := p.read("status")
	if err != nil {
		return false, err
	}
	ids := strings.Fields(field(status, "NSpid"))
	return len(ids) >= 2 && ids[len(ids)-1] == "1", nil
}
