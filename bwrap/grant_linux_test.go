package bwrap_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
	"pinfold/stub"
)

// granted asks the guard for a Grant, and translates it for this machine.
func granted(t *testing.T, p *policy.Policy, r guard.Request, protected ...string) *bwrap.Launch {
	t.Helper()
	m := realMachine(t)
	r.UID, r.GID = os.Getuid(), os.Getgid()
	r.Env = append(r.Env, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	g, err := guard.GuardLaunch(t.Context(), p, r, protected)
	if err != nil {
		t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	t.Cleanup(func() { must(t, g.Close()) })
	l, err := bwrap.Translate(g, m, bwrap.Options{Umask: 0o022})
	if errors.Is(err, stub.ErrNotBuilt) && os.Getenv("PINFOLD_INTEGRATION") != "1" {
		t.Skip("the stub is not built")
	}
	must(t, err)
	return l
}

func literal(paths ...string) []policy.PathRule {
	var out []policy.PathRule
	for _, p := range paths {
		out = append(out, policy.PathRule{Text: p, Literal: true, Source: "test"})
	}
	return out
}

// works runs attempts in a launch whose command they replace.
func works(t *testing.T, l *bwrap.Launch, tries []attempt) {
	t.Helper()
	l.Setup.Argv = []string{"/bin/sh", "-c", script(tries)}
	compareTries(t, "all layers", whole(t, l), tries)
}

func TestRealGrantOfAWorkspace(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	home, w := dir+"/home", dir+"/home/w"
	file(t, home+"/.ssh/id_ed25519", "s")
	file(t, home+"/.netrc", "s")
	file(t, home+"/.docker/config.json", "s")
	file(t, home+"/notes", "x")
	file(t, w+"/main.go", "x")
	file(t, w+"/.env", "s")
	file(t, w+"/vendor/v.go", "x")
	file(t, dir+"/state/s", "x")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", w, "init", "-q").CombinedOutput(); err != nil {
		t.Skipf("git: %s", out)
	}
	p := &policy.Policy{
		Write: literal(w), ReadOnly: literal(w+"/vendor", w+"/.git/config", w+"/.git/hooks"),
		Read: policy.Read{Deny: literal(w+"/.env", w+"/not/yet")},
	}
	l := granted(t, p, guard.Request{
		Argv: []string{"true"}, Workspace: w, Home: home, CallerDir: w, State: dir + "/state",
	}, dir+"/state")
	works(t, l, []attempt{
		{"yes", "echo y > main.go && mkdir new && mv new newer && rmdir newer"},
		{"yes", "cat " + home + "/notes"},
		{"no", "echo y > " + home + "/notes"},
		{"no", "cat " + home + "/.ssh/id_ed25519"},
		{"yes", "test -z \"$(ls -A " + home + "/.ssh)\" && test -z \"$(cat " + home + "/.netrc)\""},
		{"yes", "test \"$(cat " + home + "/.docker/config.json)\" = '{}'"},
		{"no", "cat .env"},
		{"no", "echo > .env"},
		{"no", "touch not/yet/x"},
		{"no", "echo > vendor/v.go"},
		{"no", "ls " + dir + "/state"},
		{"no", "touch " + dir + "/state/x"},
		{"no", "echo > .git/hooks/pre-commit"},
		{"no", "echo > .git/config"},
		{"no", "mv .git g"},
		{"no", "mv not nut"},
		{"yes", "git -c user.name=a -c user.email=a@b add main.go && git -c user.name=a -c user.email=a@b commit -qm x"},
	})
}

// A base that isn't the host's shows nothing that isn't named.
func TestRealGrantOfTheSystem(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	home, w := dir+"/home", dir+"/w"
	file(t, home+"/notes", "x")
	file(t, w+"/a", "x")
	p := &policy.Policy{Write: literal(w), Read: policy.Read{Base: policy.BaseSystem}}
	l := granted(t, p, guard.Request{Argv: []string{"true"}, Workspace: w, Home: home, CallerDir: w})
	works(t, l, []attempt{
		{"yes", "cat a && touch b"},
		{"yes", "test -z \"$(ls -A " + home + ")\""},
		{"no", "touch " + home + "/x"},
		{"no", "cat " + home + "/notes"},
		{"yes", "ls /usr/bin /bin/sh"},
		{"no", "ls /var/lib"},
		{"no", "touch /x"},
	})
}

// Every layer and every mount is in the printed plan.
func TestRealGrantPlan(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/a", "x")
	l := granted(t, &policy.Policy{Write: literal(dir + "/w")}, guard.Request{Argv: []string{"true"}, Workspace: dir + "/w", CallerDir: dir + "/w"})
	var s strings.Builder
	must(t, l.Plan.Text(&s))
	for _, want := range []string{dir + "/w", "read.base host", "seccomp listed", "no_userns_inside", "landlock", "sha256:"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the plan says nothing of %q:\n%s", want, s.String())
		}
	}
}
