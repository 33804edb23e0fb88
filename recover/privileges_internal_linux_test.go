package recover

import (
	"errors"
	"strings"
	"testing"

	"pinfold/plan"
)

// TestPrivileges breaks one line of a status at a time.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	const good = "Name:\tsh\nState:\tS (sleeping)\nNSpid:\t9\t2\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n" +
		"CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\nSpeculation_Store_Bypass:\tvulnerable\n"
	p := &prover{
		stored: &plan.Stored{Root: &plan.Root{Filters: map[string]int{"init": 1, "command": 2}}},
		init:   &process{pid: 1},
	}
	for name, tc := range map[string]struct {
		pid      int
		old, new string
		why      string
	}{
		"as it should be":      {9, "", "", ""},
		"inheritable":          {9, "CapInh:\t0", "CapInh:\t1", "CapInh"},
		"permitted":            {9, "CapPrm:\t0", "CapPrm:\t1", "CapPrm"},
		"effective":            {9, "CapEff:\t0", "CapEff:\t1", "CapEff"},
		"bounding":             {9, "CapBnd:\t0", "CapBnd:\t1", "CapBnd"},
		"ambient":              {9, "CapAmb:\t0", "CapAmb:\t1", "CapAmb"},
		"a set that isn't":     {9, "CapAmb:\t0000000000000000\n", "", "CapAmb"},
		"may gain more":        {9, "NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs"},
		"no filter":            {9, "Seccomp:\t2", "Seccomp:\t0", "no seccomp filter"},
		"strict mode":          {9, "Seccomp:\t2", "Seccomp:\t1", "no seccomp filter"},
		"a filter less":        {9, "_filters:\t3", "_filters:\t1", "has 1 seccomp filters"},
		"filters untold":       {9, "Seccomp_filters:\t3\n", "", "no number"},
		"pid 1 with one more":  {1, "", "", "has 3 seccomp filters"},
		"pid 1 as it should":   {1, "_filters:\t3", "_filters:\t1", ""},
		"a name that pretends": {9, "Name:\tsh\n", "Name:\tNoNewPrivs:\t0\n", ""},
	} {
		err := p.lookPrivileges(&process{pid: tc.pid}, []byte(strings.Replace(good, tc.old, tc.new, 1)))
		no, refused := errors.AsType[*errRefuted](err)
		if refused != (tc.why != "") || refused && (no.proof != ProofPrivileges || !strings.Contains(no.why, tc.why)) || !refused && err != nil {
			t.Errorf("%s: got %v, wanted %q", name, err, tc.why)
		}
	}
}
