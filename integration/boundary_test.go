//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostChange is something that the host does to a path that a rule is about,
// while a command runs.
type hostChange struct {
	policy  doc
	prepare string // sh, on the host, before
	change  string // sh, on the host, meanwhile
	event   string // the reason of the event that it makes; "" for none at all
	inside  string // sh, inside, afterwards
	want    string // what that says, held
	code    int    // the exit code
}

func hostChanges() map[string]hostChange {
	return map[string]hostChange{
		"git config writes": {
			change: "git -C {ws} config a.b c", event: "cover_restored",
			inside: "echo x 2>&- >>{ws}/.git/config || echo held; mv {ws}/.git/config {ws}/.git/c 2>&- || echo held; grep -c b.=.c {ws}/.git/config",
			want:   "held\nheld\n1\n",
		},
		"a history is rewritten": {
			change: "echo {secret} >{root}/new; mv {root}/new {home}/.bash_history", event: "cover_restored",
			inside: "cat {home}/.bash_history; echo x 2>&- >>{home}/.bash_history || echo held", want: "held\n",
		},
		"an editor moves a file away and writes it anew": {
			change: "mv {home}/.npmrc {home}/.npmrc~; echo {secret} >{home}/.npmrc", event: "cover_restored",
			inside: "cat {home}/.npmrc; echo done", want: "done\n",
		},
		"a denied file of the policy's": {
			policy: denies("{workspace}/.env"), prepare: "echo {secret} >{ws}/.env",
			change: "echo {secret} >{root}/new; mv {root}/new {ws}/.env", event: "cover_restored",
			inside: "cat {ws}/.env 2>&- || echo held; rm -f {ws}/.env 2>&- || echo held", want: "held\nheld\n",
		},
		"a directory is replaced": {
			change: "mv {home}/.ssh {home}/old; mkdir {home}/.ssh; echo {secret} >{home}/.ssh/id", event: "cover_restored",
			inside: "ls {home}/.ssh; cat {home}/.ssh/id 2>&- || echo held", want: "held\n",
		},
		"a credential is made": {
			prepare: "rm {home}/.netrc", change: "echo {secret} >{home}/.netrc", event: "cover_restored",
			inside: "cat {home}/.netrc; echo done", want: "done\n",
		},
		"a directory of credentials is made": {
			prepare: "rm -r {home}/.aws", change: "mkdir {home}/.aws; echo {secret} >{home}/.aws/credentials", event: "cover_restored",
			inside: "cat {home}/.aws/credentials 2>&- || echo held", want: "held\n",
		},
		"a guarded directory is removed": {
			change: "rm -r {ws}/.git/info", inside: "mkdir {ws}/.git/info && echo x >{ws}/.git/info/attributes; until [ ! -e {ws}/.git/info ]; do sleep 0.01; done; echo gone",
			want: "gone\n",
		},
		"the repository is made anew": {
			change: "mv {ws}/.git {ws}/old; git init -q {ws}", event: "cover_detached", code: 123,
		},
		"a guarded directory is replaced": {
			change: "rm -r {ws}/.git/hooks; mkdir {ws}/.git/hooks; echo : >{ws}/.git/hooks/pre-push", event: "cover_restored",
			inside: "ls {ws}/.git/hooks; echo x 2>&- >{ws}/.git/hooks/pre-commit || echo held; mv {ws}/.git/hooks {ws}/h 2>&- || echo held",
			want:   "pre-push\nheld\nheld\n",
		},
		"a guarded directory is renamed over": {
			change: "mkdir {root}/h; echo : >{root}/h/pre-push; rm {ws}/.git/hooks/*; mv -T {root}/h {ws}/.git/hooks", event: "cover_restored",
			inside: "ls {ws}/.git/hooks; echo x 2>&- >{ws}/.git/hooks/pre-push || echo held", want: "pre-push\nheld\n",
		},
		"a denied directory of the policy's is moved away": {
			policy: denies("{workspace}/secrets"), prepare: "mkdir {ws}/secrets; echo {secret} >{ws}/secrets/f",
			change: "mv {ws}/secrets {ws}/old", event: "cover_restored",
			inside: "cat {ws}/old/f {ws}/secrets/f 2>&- || echo held; rmdir {ws}/secrets 2>&- || echo held; mkdir {ws}/secrets/x 2>&- || echo held", want: "held\nheld\nheld\n",
		},
		"a directory of read-only files is removed": {
			policy: doc{"write": []string{"{workspace}"}, "read_only": []string{"{workspace}/vendor"}}, prepare: "mkdir {ws}/vendor; echo x >{ws}/vendor/f",
			change: "rm -r {ws}/vendor", event: "cover_restored",
			inside: "ls {ws}/vendor; echo x 2>&- >{ws}/vendor/f || echo held", want: "held\n",
		},
		"a directory above credentials is replaced": {
			change: "mv {home}/.config {home}/old; cp -r {home}/old {home}/.config", event: "cover_restored",
			inside: "cat {home}/.config/gh/hosts.yml {home}/old/gh/hosts.yml 2>&- || echo held; cat {home}/.config/app/settings.toml", want: "held\ncolour = 'blue'\n",
		},
		// What isn't there for longer than a host's rename takes is watched for, and
		// comes to be in directories that nobody watched before.
		"a directory above credentials comes back later": {
			change: "mv {home}/.config {home}/old; sleep 0.5; cp -r {home}/old {home}/.config", event: "cover_restored",
			inside: "cat {home}/.config/gh/hosts.yml {home}/old/gh/hosts.yml 2>&- || echo held; cat {home}/.config/app/settings.toml", want: "held\ncolour = 'blue'\n",
		},
		"a denied file becomes a link": {
			change: "mv {home}/.npmrc {home}/x; ln -s x {home}/.npmrc", event: "cover_detached", code: 123,
		},
		"a workspace is moved away": {
			change: "mv {ws} {root}/moved; mkdir {ws}", event: "grant_replaced", code: 123,
		},
		"nothing of ours": {
			change: "git -C {ws} status --porcelain; echo x >{ws}/new; git -C {ws} add -A; git -C {ws} commit -qm second; echo x >{home}/notes; mv {home}/notes {home}/n2",
			inside: "git -C {ws} log --oneline | wc -l; echo x >>{ws}/.git/config || echo held", want: "2\nheld\n",
		},
	}
}

// TestHostChanges: whatever the host does to what is kept from the command, it
// stays kept, or the run is ended.
func TestHostChanges(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name, c := range hostChanges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newLab(t))
		})
	}
}

func (c hostChange) run(t *testing.T, l *lab) {
	t.Helper()
	fill := l.place([]string{"{secret}", secret})
	l.sh(t, fill.Replace(c.prepare))
	if c.policy == nil {
		c.policy = workspaceOnly()
	}
	events := l.root + "/events"
	r := l.start(t, launch{policy: c.policy, flags: []string{"--events", events}, argv: []string{
		"sh", "-c", fill.Replace("touch {run}/ready; until [ -e {run}/go ]; do sleep 0.02; done; " + c.inside),
	}})
	r.await(t, l.run+"/ready")
	l.sh(t, fill.Replace(c.change))
	if c.event != "" {
		r.reports(t, events, c.event)
	}
	write(t, l.run+"/go", "", 0o644)
	<-r.done
	if got := r.ProcessState.ExitCode(); got != c.code || r.stdout.String() != c.want {
		t.Errorf("exit %d, said %q, wanted %d and %q\n%s%s", got, r.stdout.String(), c.code, c.want, r.stderr.String(), read(t, events))
	}
	if boundary := strings.Contains(read(t, events), `"kind":"boundary"`); boundary != (c.event != "") {
		t.Errorf("a boundary event: %v\n%s", boundary, read(t, events))
	}
	if strings.Contains(r.stdout.String(), secret) {
		t.Error("the secret was read")
	}
}

// sh runs a script of the host's.
func (l *lab) sh(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = l.root, append(l.env(), "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("on the host: %s: %v\n%s", script, err, out)
	}
}

// TestHostChangesControl: with bubblewrap alone the same covers come off, and
// stay off.
func TestHostChangesControl(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	fill := l.place(nil)
	cmd := exec.Command("bwrap", "--bind", "/", "/", "--ro-bind", l.ws+"/.git/config", l.ws+"/.git/config", "--tmpfs", l.home+"/.ssh", "sh", "-c",
		fill.Replace("touch {run}/ready; until [ -e {run}/go ]; do sleep 0.02; done; echo '# planted' >>{ws}/.git/config; cat {home}/.ssh/id"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	eventually(t, "ready", func() bool { _, err := os.Stat(l.run + "/ready"); return err == nil })
	l.sh(t, fill.Replace("git -C {ws} config a.b c; mv {home}/.ssh {home}/old; mkdir {home}/.ssh; echo "+secret+" >{home}/.ssh/id; touch {run}/go"))
	must(t, cmd.Wait())
	if !strings.Contains(out.String(), secret) || !strings.Contains(read(t, l.ws+"/.git/config"), "planted") {
		t.Errorf("bubblewrap alone holds: the changes prove nothing: %q", out.String())
	}
}

// TestLateMounts: what the host mounts while a command runs is taken off
// inside where it shows what is denied or could be written, and left alone
// where it is harmless.
//
//nolint:paralleltest // in a mount namespace of its own, where each has the mounts to itself
func TestLateMounts(t *testing.T) {
	needsSandbox(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount on the host")
	}
	if os.Getenv("PINFOLD_TEST_MOUNTS") == "" {
		again := exec.Command("unshare", "--mount", "--propagation", "private", os.Args[0], "-test.run=^TestLateMounts$", "-test.v")
		again.Env = append(os.Environ(), "PINFOLD_TEST_MOUNTS=1", "PINFOLD_BIN="+built.pinfold, "PINFOLD_ATTACK="+built.attack)
		out, err := again.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !strings.Contains(string(out), "--- PASS: TestLateMounts/harmless") {
			t.Errorf("in a namespace: %v", err)
		}
		return
	}
	for name, c := range map[string]hostChange{
		"shows credentials": {change: "mount --bind {home}/.ssh {public}/m", event: "late_mount_removed", inside: "ls {public}/m", want: ""},
		"shows the home":    {change: "mount --bind {home} {public}/m", event: "late_mount_removed", inside: "ls {public}/m", want: ""},
		"in the workspace":  {change: "mount -t tmpfs x {ws}/m", event: "late_mount_removed", inside: "touch {ws}/m/x; ls {ws}/m", want: "x\n"},
		"over a cover":      {change: "mount -t tmpfs x {ws}/.git/hooks", event: "late_mount_removed", inside: "ls {ws}/.git/hooks", want: "pre-commit\n"},
		"in use":            {change: "mount -t tmpfs x {ws}/m; touch {ws}/m/f", event: "late_mount", code: 123},
		"unmounted, beneath a cover": {
			policy: denies("{workspace}/m/s"), prepare: "mount -t tmpfs x {ws}/m; echo {secret} >{ws}/m/s",
			change: "umount -l {ws}/m; echo {secret} >{ws}/m/s", inside: "cat {ws}/m/s 2>&- || echo held", want: "held\n",
		},
		"unmounted": {prepare: "mount -t tmpfs x {public}/m; echo x >{public}/m/f", change: "umount {public}/m", inside: "ls {public}/m", want: ""},
		"harmless":  {change: "mount -t tmpfs x {public}/m; touch {public}/m/f", inside: "ls {public}/m; touch {public}/m/x 2>&- || echo held", want: "f\nheld\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			must(t, unix.Mount(l.root, l.root, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(l.root, unix.MNT_DETACH) })
			must(t, unix.Mount("", l.root, "", unix.MS_SHARED, ""))
			l.sh(t, l.place(nil).Replace("rm {ws}/.git/hooks/*.sample || :; mkdir {public}/m {ws}/m"))
			for _, dir := range []string{l.public + "/m", l.ws + "/m", l.ws + "/.git/hooks"} {
				t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			}
			if name == "in use" {
				c.inUse(t, l)
				return
			}
			c.run(t, l)
		})
	}
}

// inUse: the command looks for the mount and opens what is in it at once, so
// that it can't be taken off.
func (c hostChange) inUse(t *testing.T, l *lab) {
	t.Helper()
	fill := l.place(nil)
	r := l.start(t, launch{policy: workspaceOnly(), argv: []string{
		"sh", "-c", fill.Replace("touch {run}/ready; cd {ws}; while :; do { sleep 100 & kill $!; } <m/f; done 2>/dev/null"),
	}})
	r.await(t, l.run+"/ready")
	l.sh(t, fill.Replace(c.change))
	eventually(t, "the mount is taken off, or the run ended", func() bool {
		select {
		case <-r.done:
			return true
		default:
			return strings.Contains(r.stderr.String(), "taken off")
		}
	})
	if r.ProcessState != nil && r.ProcessState.ExitCode() != c.code {
		t.Errorf("exit %d, wanted %d: %s", r.ProcessState.ExitCode(), c.code, r.stderr.String())
	}
}

// TestGuardedNamesThatAppear: names that weren't there are cleared, whatever way
// they come, what they held is kept, and the host sees nothing in the end.
func TestGuardedNamesThatAppear(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name, c := range map[string]struct {
		make, at string
		kept     bool // it had content by the time it had the name
	}{
		"a file":           {make: "echo '[alias]x=!id' >{ws}/.git/config.worktree", at: ".git/config.worktree"},
		"a directory":      {make: "mkdir {ws}/.vscode; echo x >{ws}/.vscode/tasks.json", at: ".vscode"},
		"an empty file":    {make: ">{ws}/.git/commondir", at: ".git/commondir"},
		"renamed there":    {make: "echo x >{ws}/d; mv {ws}/d {ws}/.envrc", at: ".envrc", kept: true},
		"linked there":     {make: "echo x >{ws}/d; ln {ws}/d {ws}/.mcp.json", at: ".mcp.json", kept: true},
		"a symbolic link":  {make: "ln -s /etc/hosts {ws}/.husky", at: ".husky", kept: true},
		"beneath":          {make: "mkdir {ws}/d; echo x >{ws}/d/settings.json; mv {ws}/d {ws}/.claude", at: ".claude/settings.json", kept: true},
		"through a link":   {make: "mkdir {ws}/d; echo x >{ws}/d/settings.json; ln -s d {ws}/.claude", at: ".claude", kept: true},
		"a closed one":     {make: "mkdir {ws}/d; echo x >{ws}/d/settings.json; chmod 0 {ws}/d; mv {ws}/d {ws}/.claude", at: ".claude/settings.json", kept: true},
		"a closed content": {make: "mkdir -p {ws}/d/e; echo x >{ws}/d/e/f; chmod 0 {ws}/d/e/f {ws}/d/e {ws}/d; mv {ws}/d {ws}/.idea", at: ".idea", kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			fill := l.place([]string{"{at}", l.ws + "/" + c.at})
			res := l.wrap(t, launch{policy: workspaceOnly(), flags: []string{"--record", l.root + "/rec"}, argv: []string{"sh", "-c", fill.Replace(
				c.make + "; until [ ! -e {at} ] && [ ! -L {at} ]; do sleep 0.01; done; echo gone")}})
			if res.code != 0 || res.stdout != "gone\n" || strings.Count(res.stderr, "took away") != 1 {
				t.Errorf("%v", res)
			}
			absent(l.ws+"/"+c.at)(t, l)
			kept, err := filepath.Glob(l.root + "/rec/taken/*" + filepath.Base(c.at))
			must(t, err)
			if len(kept) > 1 || c.kept && len(kept) == 0 {
				t.Errorf("kept: %v", kept)
			}
			if left, err := filepath.Glob(l.ws + "/.pinfold*"); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// TestGuardedNameAtTheEnd: what is made last of all is cleared as well, and so
// is what a run made that was killed with its supervisor.
func TestGuardedNameAtTheEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "exec 3>" + l.ws + "/.envrc; echo x >&3"}})
	if res.code != 0 {
		t.Errorf("%v", res)
	}
	absent(l.ws+"/.envrc")(t, l)

	// A supervisor that is killed in the middle of a rename still makes it.
	left := false
	for round := 0; round < 5 && !left; round++ {
		left = l.killedBesideAName(t)
	}
	if !left {
		t.Fatal("nothing was left: the test shows nothing")
	}
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"true"}}); res.code != 0 {
		t.Errorf("%v", res)
	}
	absent(l.ws+"/.envrc")(t, l)

	// The host's own, made while nothing runs, stays.
	write(t, l.ws+"/.envrc", "mine\n", 0o644)
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"true"}}); res.code != 0 || read(t, l.ws+"/.envrc") != "mine\n" {
		t.Errorf("the host's own: %v", res)
	}
}

// killedBesideAName kills a supervisor while the command makes a guarded name
// over and over, and reports whether the name is left.
func (l *lab) killedBesideAName(t *testing.T) bool {
	t.Helper()
	must(t, os.RemoveAll(l.run+"/ready"))
	r := l.start(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "touch " + l.run + "/ready; while :; do echo x >" + l.ws + "/.envrc; done"}})
	r.await(t, l.run+"/ready")
	must(t, r.Process.Signal(unix.SIGSTOP)) // so that it clears nothing more
	eventually(t, "it stands", func() bool { return statFields(t, r.Process.Pid)[0] == "T" })
	eventually(t, "the name is taken", func() bool { _, err := os.Stat(l.ws + "/.envrc"); return err == nil })
	must(t, r.Process.Kill())
	<-r.done
	eventually(t, "nothing is left running", func() bool { return len(r.tree(t)) == 0 })
	_, err := os.Stat(l.ws + "/.envrc")
	return err == nil
}

// TestOnAndOn: a command that goes on making a guarded name is ended.
func TestOnAndOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "while :; do : >" + l.ws + "/.envrc; done"}})
	if res.code != 123 {
		t.Errorf("exit %d, wanted 123: %.2000s", res.code, res.stderr)
	}
	absent(l.ws+"/.envrc")(t, l)
}

// reports waits for an event.
func (r *running) reports(t *testing.T, events, reason string) {
	t.Helper()
	ended := false
	eventually(t, "an event "+reason, func() bool {
		if strings.Contains(read(t, events), `"reason":"`+reason+`"`) {
			return true
		}
		if ended {
			t.Fatalf("ended without an event %s:\n%s%s", reason, r.stderr.String(), read(t, events))
		}
		select {
		case <-r.done:
			ended = true // its last events are in the file by now
		default:
		}
		return false
	})
}
