package bwrap_test

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/stub/seccomp"
)

// shell runs the command line that a person would.
func shell(t *testing.T, l *bwrap.Launch, env ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", l.Shell())
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{string(out), cmd.ProcessState.ExitCode()}
}

func TestRealShell(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/a", "x")
	file(t, dir+"/w/cred.json", "s")
	empty := entry(t, dir+"/w/cred.json", guard.Empty)
	empty.Content = []byte("{}\n")
	in := bwrap.Input{
		Entries: []guard.Entry{entry(t, dir+"/w", guard.ReadWrite), empty},
		Argv:    []string{"/bin/sh", "-c", `pwd; cat cred.json; echo "$PATH"; env | grep -c .; echo "$1"`, "sh", "it's  here"},
		Dir:     dir + "/w",
	}
	r := shell(t, realLaunch(t, in), "SECRET=s3cret")
	want := []string{dir + "/w", "{}", "/usr/bin:/bin", "2", "it's  here"} // PATH and PWD
	if got := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit %d, got %q, wanted %q", r.code, got, want)
	}
}

// A directory that is made for each launch is made for this one as well.
func TestRealShellMakesFreshDirectories(t *testing.T) {
	t.Parallel()
	run := lab(t) + "/run it"
	mkdir(t, run)
	in := bwrap.Input{Entries: []guard.Entry{entry(t, run, guard.ReadWrite)}, Argv: []string{"touch", "here"}, Dir: run}
	filter, err := seccomp.Program(runtime.GOARCH, seccomp.Base)
	must(t, err)
	l, err := bwrap.TranslateInput(in, realMachine(t), bwrap.Options{
		Fresh: []bwrap.Fresh{{Name: "{run}", Path: run}},
		Parts: &bwrap.Parts{Stub: []byte("unused"), Filter: filter},
	})
	must(t, err)
	must(t, os.Remove(run))
	if r := shell(t, l); r.code != 0 {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
	if _, err := os.Stat(run + "/here"); err != nil {
		t.Error(err)
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "a b", "it's", "$(id)", "`id`", "a\nb", "*", "~", `\`, "!x", "é\xff", "-n", "#", "a=b", "{a,b}"} {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "printf %s "+bwrap.ShellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("got %q, %v, wanted %q", out, err, s)
		}
	}
}
