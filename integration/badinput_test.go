//go:build linux

package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refused checks that nothing ran, and that the answer names the thing and
// what to do about it.
func refused(t *testing.T, res result, names ...string) {
	t.Helper()
	if res.code != 125 {
		t.Errorf("exit %d, want 125", res.code)
	}
	for _, name := range append(names, "hint: ") {
		if !strings.Contains(res.stderr, name) {
			t.Errorf("nothing names %q", name)
		}
	}
	if strings.Contains(res.stdout, "RAN") || t.Failed() {
		t.Errorf("%v", res)
	}
	if strings.Contains(res.stderr, "panic") || strings.Contains(res.stderr, "goroutine") {
		t.Errorf("it crashed: %v", res)
	}
}

func ran() []string { return []string{"echo", "RAN"} }

func TestBadPolicies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	deep := strings.Repeat(`{"read":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for name, c := range map[string]struct {
		text  string
		names []string
	}{
		"binary":             {"\x7fELF\x02\x01\x01\x00\x00\x00", nil},
		"not UTF-8":          {"{\"write\": [\"/\xff\"]}", nil},
		"deeply nested":      {deep, nil},
		"an array":           {"[]", nil},
		"duplicate keys":     {"{\"write\": [],\n \"write\": []}", []string{"write", ":2:"}},
		"an unknown field":   {"{\"wriet\": []}", []string{"wriet", "write", ":1:"}},
		"a different case":   {"{\"Write\": []}", []string{"Write", ":1:"}},
		"the wrong type":     {"{\"write\": \"/a\"}", []string{"write", ":1:"}},
		"the wrong list":     {"{\"network\": {\"allow\": [1]}}", []string{"allow"}},
		"a truncated text":   {"{\"write\": [", nil},
		"text after the end": {"{} {}", nil},
		"a pattern":          {"{\"write\": [\"{workspace}/*\"]}", []string{"*"}},
		"a relative path":    {"{\"write\": [\"src\"]}", []string{"src"}},
		"an unknown place":   {"{\"write\": [\"{worspace}\"]}", []string{"worspace"}},
		"a bare star":        {"{\"network\": {\"allow\": [\"*\"]}}", []string{"*"}},
		"a missing grant":    {"{\"write\": [\"{workspace}/nothing\"]}", []string{"nothing"}},
		"a bad version":      {"{\"version\": 99}", []string{"version"}},
		"missing extends":    {"{\"extends\": [\"./nope.json\"]}", []string{"nope.json"}},
		"unknown require":    {"{\"require\": [\"no-such-layer\"]}", []string{"no-such-layer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, l.wrap(t, launch{policy: c.text, argv: ran()}), c.names...)
		})
	}
}

func TestPoliciesThatAreOddButRight(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, text := range map[string]string{
		"an empty object": "{}", "comments": "// one\n{ /* two */ }\n", "a trailing comma": "{\"write\": [\"{workspace}\",],}",
		"only white space around": "\n\n  {}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if res := l.wrap(t, launch{policy: text, argv: ran()}); res.code != 0 || res.stdout != "RAN\n" {
				t.Errorf("want it to run: %v", res)
			}
		})
	}
	// Either answer is right for these, but never a crash or a half policy.
	for name, text := range map[string]string{"an empty file": "", "a byte order mark": "\ufeff{}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if res := l.wrap(t, launch{policy: text, argv: ran()}); res.code != 0 {
				refused(t, res)
			}
		})
	}
}

func TestBadPolicyFiles(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	huge := l.root + "/huge.json"
	write(t, huge, "{\"write\": []}", 0o644)
	must(t, os.Truncate(huge, 100<<20))
	for name, c := range map[string]string{
		"a directory": l.public, "missing": l.root + "/nothing.json", "100 MiB": huge, "a device": "/dev/zero", "no name": "/dev/null/x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			res := l.wrap(t, launch{flags: []string{"--policy", c}, argv: ran(), timeout: 30 * time.Second})
			refused(t, res, c)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestPolicyInTheWorkspaceIsNotUsedByItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.ws+"/.pinfold.json", "{\"write\": [\"{workspace}\", \""+l.public+"\"]}", 0o644)
	res := l.wrap(t, launch{argv: []string{"/bin/sh", "-c", "echo RAN; echo x > " + l.public + "/planted"}})
	absent("{public}/planted")(t, l)
	if !strings.Contains(res.stderr, ".pinfold.json") {
		t.Errorf("nothing says that the file was found and how to use it: %v", res)
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, c := range map[string]struct {
		argv []string
		want int
	}{"none": {nil, 125}, "an empty name": {[]string{""}, 125}} {
		t.Run(name, func(t *testing.T) {
			res := l.wrap(t, launch{policy: workspaceOnly(), argv: c.argv})
			if res.code != c.want || res.stderr == "" {
				t.Errorf("want exit %d and a reason: %v", c.want, res)
			}
		})
	}
	for _, flags := range [][]string{{"--no-such-flag"}, {"--policy"}, {"--policy", ""}, {"--timeout", "never"}, {"--error-format", "xml"}, {"--user", "no-such-user-here"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			if res := l.wrap(t, launch{flags: flags, argv: ran()}); res.code != 125 || strings.Contains(res.stdout, "RAN") {
				t.Errorf("want exit 125: %v", res)
			}
		})
	}
}

func TestBadWorkspaces(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	write(t, l.root+"/file", "x", 0o644)
	must(t, os.Symlink("loop", l.root+"/loop"))
	for name, c := range map[string]string{
		"missing": l.root + "/missing", "a file": l.root + "/file", "a loop": l.root + "/loop", "4,000 characters": "/" + strings.Repeat("x", 4000),
		"4,000 in parts": strings.Repeat("/"+strings.Repeat("x", 250), 17), "the root": "/", "protected": l.protect, "the state directory": l.state,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mkdir(t, l.state)
			must(t, os.Chmod(l.state, 0o700))
			res := l.wrap(t, launch{bare: true, flags: []string{"--workspace", c, "--state", l.state, "--protect", l.protect}, policy: workspaceOnly(), argv: ran()})
			refused(t, res)
		})
	}
}

// TestHomeAsWorkspace works, with the credentials in it still denied.
func TestHomeAsWorkspace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	res := l.wrap(t, launch{
		bare: true, flags: []string{"--workspace", l.home, "--state", l.state}, dir: l.home, policy: workspaceOnly(),
		argv: []string{"/bin/sh", "-c", "echo x > made; cat .netrc .ssh/id_ed25519; echo x > .ssh/new; echo x >> .bashrc; true"},
	})
	if res.code == 125 {
		refused(t, res)
		return
	}
	if res.code != 0 || strings.Contains(res.stdout, secret) {
		t.Errorf("got %v", res)
	}
	unchanged("{home}/.bashrc", "# start-up file\n")(t, l)
	absent("{home}/.ssh/new")(t, l)
}

func TestNoBubblewrap(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	refused(t, l.wrap(t, launch{policy: workspaceOnly(), argv: ran(), env: []string{"PATH=" + l.public}}), "sandbox_unavailable", "bubblewrap")
	// One that the sandboxed side could replace is as good as none.
	write(t, l.ws+"/bwrap", "#!/bin/sh\necho RAN\n", 0o755)
	refused(t, l.wrap(t, launch{policy: workspaceOnly(), argv: ran(), env: []string{"PATH=" + l.ws}}), "sandbox_unavailable", "bwrap")
}

// insideUserNamespace runs a line of shell as root of a fresh user namespace.
func (l *lab) insideUserNamespace(t *testing.T, line string) result {
	t.Helper()
	return l.direct(t, launch{argv: []string{"unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", "set -e; " + line}})
}

func (l *lab) wrapLine(t *testing.T, state string) string {
	t.Helper()
	return fmt.Sprintf("exec '%s' wrap --policy '%s' --workspace '%s' --state '%s' -- echo RAN", built.pinfold, l.policyFile(t, workspaceOnly()), l.ws, state)
}

func TestUserNamespacesOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if os.Getuid() != 0 {
		t.Skip("only root can map more than itself into a namespace to switch them off in")
	}
	refused(t, l.insideUserNamespace(t, "echo 0 > /proc/sys/user/max_user_namespaces; "+l.wrapLine(t, l.state)), "sandbox_unavailable")
}

func TestStateDirectoryThatCantBeUsed(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]string{
		"read-only": "mount -t tmpfs -o ro,mode=700 none '%[1]s'",
		"full":      "mount -t tmpfs -o size=4k,nr_inodes=2,mode=700 none '%[1]s'; head -c 4096 /dev/zero > '%[1]s/full'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			mkdir(t, l.state)
			refused(t, l.insideUserNamespace(t, fmt.Sprintf(mount, l.state)+"; "+l.wrapLine(t, l.state)), l.state)
		})
	}
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		refused(t, l.wrap(t, launch{bare: true, flags: []string{"--state", l.home + "/.bashrc", "--workspace", l.ws}, policy: workspaceOnly(), argv: ran()}), l.home+"/.bashrc")
	})
	t.Run("open to others", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		mkdir(t, l.state)
		must(t, os.Chmod(l.state, 0o777))
		refused(t, l.wrap(t, launch{policy: workspaceOnly(), argv: ran()}), l.state)
	})
}

func TestClosedStreams(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := l.policyFile(t, workspaceOnly())
	for name, redirect := range map[string]string{"stdin": "<&-", "stdin and stderr": "<&- 2>&-"} {
		t.Run(name, func(t *testing.T) {
			line := fmt.Sprintf("'%s' wrap --policy '%s' --workspace '%s' --state '%s' -- /bin/sh -c 'cat >/dev/null 2>&1; echo RAN' %s", built.pinfold, file, l.ws, l.state, redirect)
			if res := l.direct(t, launch{argv: []string{"/bin/sh", "-c", line}}); res.code != 0 || res.stdout != "RAN\n" {
				t.Errorf("want it to run: %v", res)
			}
		})
	}
	t.Run("stdin from a directory", func(t *testing.T) { // a way out, by openat(2)
		line := fmt.Sprintf("'%s' wrap --policy '%s' --workspace '%s' --state '%s' -- echo RAN < /", built.pinfold, file, l.ws, l.state)
		refused(t, l.direct(t, launch{argv: []string{"/bin/sh", "-c", line}}), "standard input")
	})
	t.Run("stdout", func(t *testing.T) {
		line := fmt.Sprintf("'%s' wrap --policy '%s' --workspace '%s' --state '%s' -- /bin/sh -c 'echo x > made-closed; exit 9' >&-", built.pinfold, file, l.ws, l.state)
		if res := l.direct(t, launch{argv: []string{"/bin/sh", "-c", line}}); res.code != 9 {
			t.Errorf("want exit 9: %v", res)
		}
	})
}

// TestTenThousandDenies: those that name nothing cost nothing; those that do
// are one refusal with a count, or they all hold.
func TestTenThousandDenies(t *testing.T) {
	t.Parallel()
	for name, exist := range map[string]bool{"missing": false, "existing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			dir := l.public + "/many"
			mkdir(t, dir)
			paths := make([]string, 10_000)
			for i := range paths {
				paths[i] = filepath.Join(dir, fmt.Sprintf("f%05d", i))
				if exist {
					must(t, os.WriteFile(paths[i], []byte(secret), 0o600))
				}
			}
			res := l.wrap(t, launch{policy: denies(paths...), argv: []string{"/bin/sh", "-c", "echo RAN; cat " + paths[0] + " " + paths[9999]}, timeout: 90 * time.Second})
			switch {
			case res.code == 125 && exist:
				refused(t, res, "10")
			case !strings.Contains(res.stdout, "RAN") || strings.Contains(res.stdout, secret):
				t.Errorf("neither refused nor held: %v", res)
			}
		})
	}
}
