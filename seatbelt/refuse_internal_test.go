package seatbelt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/seatbelt/sbpl"
)

// TestInexpressible: what macOS has no means for refuses the launch, by a code
// and with what to do instead; it is never left out.
func TestInexpressible(t *testing.T) {
	t.Parallel()
	expose := func(address string, inside, outside uint16) func(*input) {
		return func(in *input) {
			in.network.Expose = []policy.Expose{{Address: address, Inside: inside, Outside: outside}}
		}
	}
	for name, c := range map[string]struct {
		change  func(*input)
		code    string
		subject string
	}{
		"container":       {func(in *input) { in.tier = policy.TierContainer }, "tier_not_expressible", "tier"},
		"container field": {func(in *input) { in.given = map[string]policy.Position{"container": {}} }, "field_unavailable", "container"},
		"all sockets":     {func(in *input) { in.unix = policy.SocketsAll }, "field_unavailable", "unix_sockets"},
		"transparent":     {func(in *input) { in.network.Mode = policy.ModeTransparent }, "field_unavailable", "network.mode"},
		"loopback":        {expose("127.0.0.1", 3000, 3000), "field_unavailable", "network.expose"},
		"another port":    {expose("0.0.0.0", 3000, 8080), "field_unavailable", "network.expose"},
		"one address":     {expose("192.0.2.1", 3000, 3000), "field_unavailable", "network.expose"},
		"cpus":            {func(in *input) { in.limits.CPUs = 2 }, "limit_unavailable", "limits.cpus"},
		"memory":          {func(in *input) { in.limits.Memory = 1 }, "limit_unavailable", "limits.memory"},
		"pids":            {func(in *input) { in.limits.PIDs = 1 }, "limit_unavailable", "limits.pids"},
		"tmp":             {func(in *input) { in.limits.Tmp = 1 }, "limit_unavailable", "limits.tmp"},
		"idle":            {func(in *input) { in.limits.IdleTimeout = time.Second }, "limit_unavailable", "limits.idle_timeout"},
		"layer":           {func(in *input) { in.require = []string{"seatbelt", "landlock>=4"} }, "requirement_unmet", "landlock>=4"},
		"not UTF-8": {
			func(in *input) { in.entries = []guard.Entry{entry("/w/\xff", guard.ReadWrite, guard.Dir, "x")} }, "path_not_expressible", "/w/\xff",
		},
		"too many spellings": {func(in *input) {
			in.entries = []guard.Entry{entry("/w", guard.ReadWrite, guard.Dir, "w"), entry("/w/caf\u00e9", guard.Deny, guard.Missing, "x")}
		}, "path_not_expressible", "/w/caf\u00e9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input{argv: []string{"true"}, dir: "/"}
			c.change(&in)
			_, err := translate(in, Machine{Tool: plan.Tool{Path: SandboxExec}}, LaunchOptions{})
			r, ok := errors.AsType[*policy.Refusal](err)
			if !ok || r.Code != c.code || r.Subject != c.subject || r.Fix == "" || !strings.HasPrefix(r.Why, "cannot ") {
				t.Errorf("got %v (%+v)", err, r)
			}
		})
	}
}

// TestExpressible: and these don't.
func TestExpressible(t *testing.T) {
	t.Parallel()
	in := input{argv: []string{"true"}, dir: "/", require: []string{"seatbelt"}}
	in.network.Expose = []policy.Expose{{Address: "0.0.0.0", Inside: 3000, Outside: 3000}, {Address: "::", Inside: 80, Outside: 80}}
	in.network.Mode = policy.ModeProxy
	in.limits = policy.Limits{Files: 99, FileSize: 1 << 20, Timeout: time.Minute}
	if _, err := translate(in, Machine{}, LaunchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestManyRules: more paths than fit into the arguments of a program.
func TestManyRules(t *testing.T) {
	t.Parallel()
	const many = 20_000
	at := func(i int) string { return fmt.Sprintf("/w/%090d \"\\(x)", i) }
	in := input{argv: []string{"true"}, dir: "/"}
	in.entries = append(in.entries, entry("/w", guard.ReadOnly, guard.Dir, "w"))
	for i := range many {
		in.entries = append(in.entries, entry(at(i), guard.Deny, guard.Dir, "x"))
	}
	l, err := translate(in, Machine{}, LaunchOptions{})
	must(t, err)
	size := 0
	for _, a := range l.arguments("/Users/ann/state/records/x/profile.sb", "/dev/ttys007") {
		size += len(a) + 1
	}
	if size > 900<<10 || size < 700<<10 {
		t.Errorf("%d bytes of arguments", size)
	}
	p, err := sbpl.Parse(l.Text.At(1, "t"))
	must(t, err)
	params := l.Text.Map()
	params["TTY"] = "/dev/null"
	for _, i := range []int{0, many / 2, many - 1} {
		for path, want := range map[string]bool{at(i): false, at(i) + "/x": false, at(i) + "x": true} {
			if got := ask(t, p, params, sbpl.Query{Op: "file-read-data", Path: path}); got != want {
				t.Errorf("%s: got %v", path, got)
			}
		}
	}
}

// TestSuffix: confstr(3) names the launch's own directory, and nothing of the
// caller's; where the caller's TMPDIR is kept it isn't touched.
func TestSuffix(t *testing.T) {
	t.Parallel()
	const tmp = "/private/var/folders/zz/x/T/pinfold-1"
	o := LaunchOptions{Tmp: tmp, Suffix: "pinfold-1", Fresh: []Fresh{{"{tmp}", tmp}, {"{tmp}", "/var/folders/zz/x/T/pinfold-1"}}}
	in := input{argv: []string{"true"}, dir: "/", env: []string{"A=b", suffixName + "=other", "TMPDIR=/tmp"}, paths: guard.Paths{Tmp: privateTmp}}
	l, err := translate(in, Machine{}, o)
	must(t, err)
	if got := strings.Join(l.environment(proxyAt{}), " "); got != "A=b "+suffixName+"=pinfold-1 TMPDIR="+tmp {
		t.Errorf("got %s", got)
	}
	if args := strings.Join(l.Plan.Args, " "); strings.Contains(args, "pinfold-1") {
		t.Errorf("the plan has a name of this run alone: %s", args)
	}
	p, err := sbpl.Parse(l.Text.At(1, "t"))
	must(t, err)
	params := l.Text.Map()
	params["TTY"] = "/dev/null"
	for path, want := range map[string]bool{tmp + "/x": true, "/private/var/folders/zz/x/T/x": false, "/private/var/folders/zz/x/C/x": false} {
		if got := ask(t, p, params, sbpl.Query{Op: "file-write-create", Path: path}); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	in.paths.Tmp = "/w/tmp"
	l, err = translate(in, Machine{}, o)
	must(t, err)
	if got := strings.Join(l.environment(proxyAt{}), " "); got != "A=b TMPDIR=/w/tmp" {
		t.Errorf("got %s", got)
	}
}

// TestRoot: what root could change the machine by is out of its reach.
func TestRoot(t *testing.T) {
	t.Parallel()
	q := sbpl.Query{Op: "mach-lookup", Name: "com.apple.SystemConfiguration.configd"}
	for _, root := range []bool{true, false} {
		p, params := build(t, view{}, Options{Root: root})
		if got := ask(t, p, params, q); got == root {
			t.Errorf("root %v: got %v", root, got)
		}
	}
	l, err := translate(input{argv: []string{"true"}, dir: "/"}, Machine{}, LaunchOptions{Root: true})
	if err != nil || !strings.Contains(strings.Join(l.Plan.Notes, "\n"), "configd") {
		t.Errorf("got %+v, %v", l.Plan.Notes, err)
	}
}
