//go:build linux

package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sh runs a shell line inside with a policy.
func sh(p any, line string, flags ...string) launch {
	return launch{policy: p, flags: flags, argv: []string{"/bin/sh", "-c", line}}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.ws+"/plain", "no program\n", 0o644)
	mkdir(t, l.public+"/hidden")
	must(t, os.Chmod(l.public+"/hidden", 0))
	for name, c := range map[string]struct {
		argv []string
		want int
	}{
		"zero":            {[]string{"true"}, 0},
		"seven":           {[]string{"sh", "-c", "exit 7"}, 7},
		"255":             {[]string{"sh", "-c", "exit 255"}, 255},
		"killed":          {[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9},
		"terminated":      {[]string{"sh", "-c", "kill -TERM $$"}, 128 + 15},
		"not found":       {[]string{"no-such-program"}, 127},
		"path not found":  {[]string{"./no-such-program"}, 127},
		"not executable":  {[]string{"./plain"}, 126},
		"is a directory":  {[]string{"./.git"}, 126},
		"bad interpreter": {[]string{"./script"}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, l.ws+"/script", "#!/no/such/interpreter\n", 0o755)
			if res := l.wrap(t, launch{
				policy: workspaceOnly(), argv: c.argv, env: []string{"PATH=" + l.public + "/hidden:/usr/bin:/bin"},
			}); res.code != c.want {
				t.Errorf("exit %d, want %d: %v", res.code, c.want, res)
			}
		})
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	big := strings.Repeat("0123456789abcdef\x00\xff", 1<<18)
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"cat"}, stdin: big}); res.stdout != big || res.code != 0 {
		t.Errorf("%d bytes came back of %d, exit %d, stderr %q", len(res.stdout), len(big), res.code, res.stderr)
	}
	res := l.wrap(t, sh(workspaceOnly(), "echo out; echo err >&2"))
	if res.stdout != "out\n" || !strings.Contains(res.stderr, "err\n") || strings.Contains(res.stderr, "out") {
		t.Errorf("streams are mixed: %v", res)
	}
}

func TestArgumentsReachTheCommandByteForByte(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	args := []string{"a,b", "", " ", "--", "--policy", "-x", "new\nline", "\xff\xfe", "$HOME", strings.Repeat("x", 100_000)}
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: append([]string{"printf", `%s\0`}, args...)})
	if diff := cmp.Diff(strings.Join(args, "\x00")+"\x00", res.stdout); diff != "" {
		t.Errorf("arguments changed (-want +got):\n%s\n%s", diff, res.stderr)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := workspaceOnly()
	p["env"] = doc{"set": doc{"LAB_SET": "set value"}, "drop": []string{"LAB_DROP*"}, "secrets": []string{"LAB_LISTED_TOKEN"}}
	c := launch{
		policy: p, argv: []string{"env"}, flags: []string{"--env", "LAB_ADDED=added value"},
		env: []string{"LAB_API_KEY=" + secret, "LAB_LISTED_TOKEN=listed value", "LAB_DROP_ME=dropped", "AWS_PROFILE=" + secret, "LAB_PLAIN=plain value", "LD_AUDIT=/nonexistent.so"},
	}
	res := l.wrap(t, c)
	got := strings.Split(res.stdout, "\n")
	for _, want := range []string{"LAB_SET=set value", "LAB_ADDED=added value", "LAB_LISTED_TOKEN=listed value", "LAB_PLAIN=plain value", "HOME=" + l.home} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s inside: %v", want, res)
		}
	}
	for _, never := range []string{"LAB_API_KEY", "AWS_PROFILE", "LAB_DROP_ME", secret} {
		if strings.Contains(res.stdout, never) {
			t.Errorf("%s is inside: %v", never, res)
		}
	}
	if !strings.Contains(res.stderr, "LAB_API_KEY") || strings.Contains(res.stderr, secret) || strings.Contains(res.stderr, "dropped") {
		t.Errorf("withheld variables must be announced by name, never by value: %v", res)
	}
}

// TestSecretsStayOutOfArgumentsAndRecords reads every argv of the launch's
// processes and every file of its state.
func TestSecretsStayOutOfArgumentsAndRecords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := workspaceOnly()
	p["env"] = doc{"secrets": []string{"LAB_LISTED_TOKEN"}, "set": doc{"LAB_SET": "public"}}
	value := secret + "-" + filepath.Base(l.root)
	run := l.start(t, launch{policy: p, argv: []string{built.attack, "linger", l.ws + "/started"}, env: []string{"LAB_LISTED_TOKEN=" + value}})
	run.await(t, l.ws+"/started")
	for _, pid := range run.tree(t) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(b, []byte(value)) {
			t.Errorf("the secret is in the arguments of process %d: %q", pid, b)
		}
	}
	run.kill(t)
	err := filepath.WalkDir(l.state, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(value)) {
			t.Errorf("the secret is in %s", path)
		}
		return nil
	})
	must(t, err)
}

func TestDefaultDeniesLookEmpty(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, sh(workspaceOnly(), `cd "$HOME"; for f in .netrc .npmrc .git-credentials .pgpass; do [ -f $f ] || echo "no $f"; cat $f; done
		cat .docker/config.json; echo; ls -A .ssh .aws .gnupg; (echo x > .ssh/new) 2>/dev/null && echo "wrote into .ssh"; (echo x >> .netrc) 2>/dev/null && echo "wrote .netrc"; cat .config/app/settings.toml`))
	if want := "{}\n.aws:\n\n.gnupg:\n\n.ssh:\ncolour = 'blue'\n"; strings.ReplaceAll(res.stdout, "{}\n\n", "{}\n") != want || res.code != 0 {
		t.Errorf("got %v, want stdout %q", res, want)
	}
}

func TestNamedDeniesAnswerEACCES(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	deniedFile(t, l)
	for name, args := range map[string][]string{
		"read file": {"read", l.ws + "/secrets/prod.env"}, "list": {"list", l.ws + "/secrets"}, "write": {"write", l.ws + "/secrets/new"},
		"protected": {"read", l.protect + "/token"}, "list protected": {"list", l.protect},
	} {
		t.Run(name, func(t *testing.T) {
			res := l.wrap(t, launch{policy: denies("{workspace}/secrets"), argv: append([]string{built.attack}, args...)})
			if res.stdout != "HELD EACCES\n" {
				t.Errorf("want EACCES: %v", res)
			}
		})
	}
}

func TestAnExceptionLiftsItselfAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := workspaceOnly()
	p["read"] = doc{"allow": []string{"~/.ssh/known_hosts"}}
	res := l.wrap(t, sh(p, `cat "$HOME/.ssh/known_hosts"; cat "$HOME/.ssh/id_ed25519" 2>&1 | grep -c LABSECRET`))
	if res.stdout != "host key\n0\n" {
		t.Errorf("got %v", res)
	}
}

func TestTemporaryDirectoriesArePrivate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := "pinfold-" + filepath.Base(l.root)
	res := l.wrap(t, sh(workspaceOnly(), `for d in /tmp /var/tmp /dev/shm; do echo x > $d/`+name+` && ls -A $d | tr '\n' ' '; done; stat -c %a /tmp`))
	if want := strings.Repeat(name+" ", 3) + "1777\n"; res.stdout != want {
		t.Errorf("want %q: %v", want, res)
	}
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/"} {
		if _, err := os.Lstat(dir + name); err == nil {
			t.Errorf("%s appeared on the host", dir+name)
		}
	}
}

func TestReadBases(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for base, want := range map[string]string{
		"host":   "usr yes\nnotes yes\nsettings yes\n",
		"system": "usr yes\nnotes no\nsettings no\n",
		"none":   "usr yes\nnotes no\nsettings no\n",
	} {
		t.Run(base, func(t *testing.T) {
			p := workspaceOnly()
			read := doc{"base": base}
			if base == "none" { // a shell and what it is linked with
				read["allow"] = systemDirs()
			}
			p["read"] = read
			look := func(name, path string) string {
				return `[ -e "` + path + `" ] && echo ` + name + ` yes || echo ` + name + ` no; `
			}
			res := l.wrap(t, sh(p, look("usr", "/usr/bin/env")+look("notes", l.public+"/notes.txt")+look("settings", l.home+"/.config/app/settings.toml")))
			if res.stdout != want {
				t.Errorf("want %q: %v", want, res)
			}
		})
	}
}

// systemDirs are the directories that a program needs to start.
func systemDirs() []string {
	var out []string
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			out = append(out, dir)
		}
	}
	return out
}

func TestBoundaryAsTheCommandSeesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, sh(workspaceOnly(), `grep -hE '^(CapEff|CapPrm|CapInh|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status /proc/1/status | tr -s '\t' ' '; ls /proc/self/ns | while read n; do echo $n $(readlink /proc/self/ns/$n); done`))
	for _, want := range []string{"CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"} {
		if got := strings.Count(res.stdout, want+": 0000000000000000\n"); got < 1 {
			t.Errorf("%s isn't empty: %v", want, res)
		}
	}
	if strings.Count(res.stdout, "NoNewPrivs: 1\n") != 2 || strings.Count(res.stdout, "Seccomp: 2\n") != 2 {
		t.Errorf("command and pid 1 must both be filtered: %v", res)
	}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + ns)
		must(t, err)
		if !strings.Contains(res.stdout, ns+" "+ns+":[") || strings.Contains(res.stdout, own+"\n") {
			t.Errorf("namespace %s is the host's: %v", ns, res)
		}
	}
}

func TestNoHostAllowedMeansNoListenerAndNoProxy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, sh(workspaceOnly(), `env | grep -i proxy; tail -n +2 /proc/net/tcp /proc/net/tcp6 | grep -c ' 0A '; ls /sys/class/net 2>/dev/null; grep -c : /proc/net/dev`))
	if got := strings.Fields(res.stdout); len(got) == 0 || got[0] != "0" || got[len(got)-1] != "1" {
		t.Errorf("want no proxy variable, no listener and lo alone: %v", res)
	}
}

func TestRefusalIsTwoLinesOrJSON(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := doc{"write": []string{"{workspace}", l.protect}}
	text := l.wrap(t, sh(p, "touch "+l.ws+"/ran"))
	lines := strings.Split(strings.TrimSuffix(text.stderr, "\n"), "\n")
	if text.code != 125 || len(lines) != 2 || !strings.Contains(lines[0], "sandbox_denied (") || !strings.Contains(lines[0], l.protect) || !strings.HasPrefix(lines[1], "hint: ") {
		t.Errorf("want two lines that name reason, code and path, and a hint: %v", text)
	}
	js := l.wrap(t, sh(p, "touch "+l.ws+"/ran", "--error-format", "json"))
	if js.code != 125 || !strings.Contains(js.stderr, `"reason":"sandbox_denied"`) || strings.Count(js.stderr, "\n") != 1 {
		t.Errorf("want one JSON line: %v", js)
	}
	absent("{ws}/ran")(t, l)
}

func TestPlanIsStableAndCanBeRunByHand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := l.policyFile(t, workspaceOnly())
	plan := func(flags ...string) result {
		args := append([]string{built.pinfold, "plan", "--workspace", l.ws, "--run-dir", l.run, "--state", l.state, "--policy", file}, flags...)
		return l.direct(t, launch{argv: append(args, "--", "/bin/sh", "-c", "echo by hand; ls -A ~/.ssh")})
	}
	first, second := plan("--digest"), plan("--digest")
	if first.code != 0 || first.stdout != second.stdout || len(strings.TrimSpace(first.stdout)) < 64 {
		t.Errorf("digests differ or are none: %v %v", first, second)
	}
	if js := plan("--json"); js.code != 0 || !strings.Contains(js.stdout, `"mounts"`) || !strings.Contains(js.stdout, "~/.ssh") {
		t.Errorf("want every mount with its rule: %v", js)
	}
	byHand := plan("--as", "bwrap")
	if byHand.code != 0 || !strings.Contains(byHand.stdout, "bwrap") {
		t.Fatalf("no command line: %v", byHand)
	}
	if res := l.direct(t, launch{argv: []string{"/bin/bash", "-c", byHand.stdout}}); res.stdout != "by hand\n" {
		t.Errorf("the command line can't be run by hand: %v\n%s", res, byHand.stdout)
	}
}
