package bwrap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
)

func TestRealHostBase(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/a", "x")
	file(t, dir+"/w/sub/b", "x")
	file(t, dir+"/w/ro/c", "x")
	file(t, dir+"/one", "x")
	file(t, dir+"/secret", "s")
	file(t, dir+"/keys/id", "s")
	file(t, dir+"/home/cred.json", "s")
	file(t, dir+"/home/.aws/credentials", "s")
	in := bwrap.Input{Entries: []guard.Entry{
		entry(t, dir+"/home/.aws", guard.Empty),
		entry(t, dir+"/home/cred.json", guard.Empty),
		entry(t, dir+"/keys", guard.Deny),
		entry(t, dir+"/one", guard.ReadWrite),
		entry(t, dir+"/secret", guard.Deny),
		entry(t, dir+"/w", guard.ReadWrite),
		entry(t, dir+"/w/ro", guard.ReadOnly),
	}}
	in.Entries[1].Content = []byte("{}\n")
	in.Dir = dir
	must(t, os.Chmod(dir, 0o755))
	cd := "cd " + dir + " && "
	say(t, in, []attempt{
		{"yes", cd + "echo y > w/a && test $(cat w/a) = y"},
		{"yes", cd + "mkdir w/new && mv w/new w/sub/new && rmdir w/sub/new"},
		{"yes", cd + "echo y > one"},
		{"yes", cd + "cat w/ro/c"},
		{"no", cd + "echo y > w/ro/c"},
		{"no", cd + "mv w/ro w/rx"},
		{"no", cd + "cat secret"},
		{"no", cd + "echo y > secret"},
		{"no", cd + "chmod 600 secret"},
		{"no", cd + "rm -f secret"},
		{"no", cd + "ls keys"},
		{"no", cd + "cat keys/id"},
		{"no", cd + "touch keys/new"},
		{"no", cd + "chmod 700 keys"},
		{"yes", cd + `test "$(cat home/cred.json)" = '{}'`},
		{"no", cd + "echo y > home/cred.json"},
		{"yes", cd + `test -z "$(ls -A home/.aws)"`},
		{"no", cd + "touch home/.aws/config"},
		{"no", cd + "touch new"},
		{"no", "touch /etc/new"},
		{"no", "touch /new"},
	})
	if b, err := os.ReadFile(dir + "/secret"); err != nil || string(b) != "s" {
		t.Errorf("the secret is %q, %v, wanted it untouched", b, err)
	}
}

func TestRealPassableDeny(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/d/x/y/granted/f", "x")
	file(t, dir+"/d/x/other", "s")
	file(t, dir+"/d/known", "k")
	deny := entry(t, dir+"/d", guard.Deny)
	deny.Passable = true
	in := bwrap.Input{Entries: []guard.Entry{
		deny,
		entry(t, dir+"/d/known", guard.ReadOnly),
		entry(t, dir+"/d/x/y/granted", guard.ReadWrite),
	}}
	cd := "cd " + dir + "/d && "
	say(t, in, []attempt{
		{"yes", cd + "cat x/y/granted/f known"},
		{"yes", cd + "touch x/y/granted/new"},
		{"no", cd + "ls"},
		{"no", cd + "ls x"},
		{"no", cd + "ls x/y"},
		{"no", cd + "cat x/other"},
		{"no", cd + "touch new"},
		{"no", cd + "touch x/new"},
		{"no", cd + "touch x/y/new"},
		{"no", cd + "echo > known"},
		{"no", cd + "chmod 755 x"},
	})
}

func TestRealBuriedPins(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	w := dir + "/w"
	file(t, w+"/repo/.git/hooks/pre-commit", "x")
	file(t, w+"/repo/.git/config", "x")
	file(t, w+"/repo/.git/index", "x")
	file(t, w+"/repo/src/a", "x")
	in := bwrap.Input{
		Entries: []guard.Entry{
			entry(t, w, guard.ReadWrite),
			entry(t, w+"/repo/.git/config", guard.ReadOnly),
			entry(t, w+"/repo/.git/hooks", guard.ReadOnly),
		},
		Pins: []guard.Pin{
			{Root: w, Path: w + "/repo"},
			{Root: w, Path: w + "/repo/.git"},
		},
	}
	cd := "cd " + w + "/repo && "
	say(t, in, []attempt{
		{"no", cd + "mv .git g"},
		{"no", cd + "mv ../repo ../r"},
		{"no", cd + "rm -rf .git; test ! -e .git"},
		{"no", cd + "echo > .git/hooks/pre-commit"},
		{"no", cd + "touch .git/hooks/new"},
		{"no", cd + "mv .git/hooks .git/h"},
		{"no", cd + "mv .git/config .git/c"},
		{"no", cd + "echo > .git/config"},
		{"no", cd + "touch .git/n && mv .git/n .git/config"},
		// no lookup crosses a pin
		{"yes", cd + "echo y > .git/index2 && mv .git/index2 .git/index"},
		{"yes", cd + "mv src/a .git/a && ln .git/a src/b && mv .git/a src/a && rm src/b"},
		{"yes", cd + "mv src ../src && mv ../src src"},
	})
}

func TestRealMissingCovers(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	w := dir + "/w"
	mkdir(t, w+"/here")
	empty := entry(t, w+"/conf.json", guard.Empty)
	empty.Content = []byte("{}\n")
	in := bwrap.Input{
		Entries: []guard.Entry{
			entry(t, w, guard.ReadWrite),
			empty,
			entry(t, w+"/here/gone", guard.Deny),
			entry(t, w+"/no/such/dir", guard.Deny),
			entry(t, w+"/vendor", guard.ReadOnly),
			entry(t, dir+"/outside", guard.Deny),
		},
		Pins: []guard.Pin{{Root: w, Path: w + "/here"}},
	}
	cd := "cd " + w + " && "
	say(t, in, []attempt{
		{"no", cd + "touch here/gone"},
		{"no", cd + "mkdir here/gone"},
		{"no", cd + "ls here/gone"},
		{"no", cd + "rmdir here/gone"},
		{"no", cd + "touch here/gone/x"},
		{"no", cd + "mv here there"},
		{"no", cd + "touch no/such/dir/x"},
		{"no", cd + "mv no yes"},
		{"no", cd + "mv no/such no/s"},
		{"yes", cd + "touch no/such/other no/other && mv no/other no/such/o"},
		{"yes", cd + "ls vendor && test -z \"$(ls -A vendor)\""},
		{"no", cd + "touch vendor/x"},
		{"yes", cd + `test "$(cat conf.json)" = '{}'`},
		{"no", cd + "echo > conf.json"},
		{"no", "touch " + dir + "/outside"},
	})
}

// What bubblewrap makes on the host is what the Launch says it makes.
func TestRealGhosts(t *testing.T) {
	t.Parallel()
	w := lab(t)
	in := bwrap.Input{Entries: []guard.Entry{
		entry(t, w, guard.ReadWrite),
		entry(t, w+"/a/b/c", guard.Deny),
		entry(t, w+"/d", guard.ReadOnly),
	}}
	l := realLaunch(t, in)
	if r := bare(t, l, "/bin/true"); r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.out)
	}
	want := ""
	for _, g := range l.Ghosts {
		want += fmt.Sprintln(g.Path, g.Dir)
	}
	got := ""
	must(t, filepath.WalkDir(w, func(p string, d os.DirEntry, err error) error {
		if p != w {
			got += fmt.Sprintln(p, d.IsDir())
		}
		return err
	}))
	if got != want || strings.Count(want, "\n") != 4 {
		t.Errorf("on the host:\n%swanted:\n%s", got, want)
	}
}

func TestRealBuiltRoots(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/a", "x")
	file(t, dir+"/other", "s")
	home := entry(t, dir, guard.Empty)
	home.Passable = true
	for name, in := range map[string]bwrap.Input{
		"none":   {Base: policy.BaseNone},
		"system": {Base: policy.BaseSystem, Entries: []guard.Entry{entry(t, "/etc", guard.ReadOnly), home}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in.Entries = append(in.Entries, entry(t, dir+"/w", guard.ReadWrite), entry(t, "/usr", guard.ReadOnly))
			for _, link := range []string{"/bin", "/lib", "/lib64", "/sbin"} {
				if target, err := os.Readlink(link); err == nil {
					in.Links = append(in.Links, guard.Link{Path: link, Target: target})
				} else if _, err := os.Stat(link); err == nil {
					in.Entries = append(in.Entries, entry(t, link, guard.ReadOnly))
				}
			}
			etc := map[string]string{"none": "no", "system": "yes"}[name]
			say(t, in, []attempt{
				{"yes", "cat " + dir + "/w/a"},
				{"yes", "touch " + dir + "/w/new"},
				{"no", "cat " + dir + "/other"},
				{"no", "touch " + dir + "/new"},
				{"no", "touch /new"},
				{"no", "mkdir /new"},
				{"no", "rm /bin"},
				{etc, "cat /etc/passwd"},
				{"no", "ls /var/lib"},
				{"yes", "touch /tmp/x /var/tmp/x /dev/shm/x"},
				{"yes", "ls /sys/kernel"},
				{"yes", "ls /proc/self/fd"},
			})
		})
	}
}

func TestRealPrivateDirectories(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir() // beneath /tmp
	if !strings.HasPrefix(tmp, "/tmp/") {
		t.Skipf("temporary directories are in %q", tmp)
	}
	file(t, tmp+"/w/a", "x")
	file(t, tmp+"/w/secret", "x")
	in := bwrap.Input{
		Entries: []guard.Entry{
			entry(t, tmp+"/w", guard.ReadWrite),
			entry(t, tmp+"/w/secret", guard.Deny),
		},
	}
	say(t, in, []attempt{
		{"yes", "cd " + tmp + "/w && cat a && touch new"},
		{"no", "cat " + tmp + "/w/secret"},
		{"yes", `test "$(ls -A /tmp | wc -l)" = 1`},
		{"yes", `test -z "$(ls -A /var/tmp /dev/shm | grep -v :)"`},
		{"yes", "touch /tmp/y /var/tmp/y /dev/shm/y"},
		{"yes", `test "$(stat -c %a /tmp)" = 1777`},
	})
	if _, err := os.Stat("/tmp/y"); err == nil {
		t.Error("a file of the sandbox's /tmp is in the host's")
	}
}

func TestRealKernelSurface(t *testing.T) {
	t.Parallel()
	in := bwrap.Input{}
	tries := []attempt{
		{"no", "echo 1 > /proc/sys/vm/swappiness"},
		{"no", "touch /proc/sys/kernel/hostname"},
		{"no", "cat /proc/keys"},
		{"no", "cat /proc/timer_list"},
		{"no", "echo h > /proc/sysrq-trigger"},
		{"no", "test -w /proc/sys/kernel/core_pattern"},
		{"no", "find /proc/irq /proc/bus /proc/fs -type f -perm /222 -writable | grep -q ."},
		{"no", "test -w /proc/mtrr"},
		{"no", "test -w /sys/kernel/uevent_helper -o -w /sys/power/state"},
		{"yes", "echo > /dev/null && head -c 1 /dev/zero /dev/urandom"},
		{"no", "touch /dev/new"},
		{"no", "mknod /tmp/null c 1 3"},
		{"no", "cat /dev/console"},
		{"no", "echo x > /dev/console"},
		{"no", "ls /dev/kmsg /dev/mem /dev/vda"},
		{"no", "mv /dev/null /dev/n"},
		{"no", "echo > /dev/.pinfold"},
		{"yes", "test \"$(sed -n 's/^CapEff:.//p;s/^CapBnd:.//p' /proc/self/status | sort -u)\" = 0000000000000000"},
		{"yes", "grep -q 'NoNewPrivs:.1' /proc/self/status"},
		{"yes", "grep -q 'Seccomp:.2' /proc/self/status"},
		{"no", "unshare -U true"},
		{"no", "unshare -m true"},
		{"no", "mount -t tmpfs none /tmp"},
		{"no", "umount /tmp"},
		{"yes", `test "$(ls /sys/class/net | wc -l)" -ge 1 && test "$(grep -c : /proc/net/dev)" = 1`},
		{"yes", `test "$(ls -d /proc/[0-9]* | wc -l)" -lt 12`},
		{"yes", `test "$(hostname)" = "$(uname -n)"`},
	}
	say(t, in, tries)
}

// A host's FIFO can be written through a read-only mount; Landlock stops it.
func TestRealFIFO(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	must(t, unix.Mkfifo(dir+"/fifo", 0o666))
	reader, err := os.OpenFile(dir+"/fifo", os.O_RDWR, 0)
	must(t, err)
	defer reader.Close()
	l := realLaunch(t, bwrap.Input{Argv: []string{"/bin/sh", "-c", "echo x > " + dir + "/fifo"}})
	if !l.Setup.Landlock.Enabled {
		t.Skip("the kernel has no Landlock")
	}
	if r := whole(t, l); r.code == 0 {
		t.Errorf("the FIFO was written: %q", r.out)
	}
}

func TestRealOddNames(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	for _, name := range []string{"sp ace", "new\nline", "quote'\"", "ünï", "bad\xffutf8", "--flag", "{fd:seccomp}", "$(id)", `back\slash`} {
		w := dir + "/" + name
		file(t, w+"/a", "x")
		file(t, w+"/secret", "s")
		in := bwrap.Input{
			Entries: []guard.Entry{entry(t, w, guard.ReadWrite), entry(t, w+"/secret", guard.Deny)},
			Argv:    []string{"/bin/sh", "-c", "cat a && touch new && ! cat secret 2>/dev/null"},
			Dir:     w,
		}
		l := realLaunch(t, in)
		if r := whole(t, l); r.code != 0 || r.out != "x" {
			t.Errorf("%q: exit %d, %q", name, r.code, r.out)
		}
		if r := shell(t, l); r.code != 0 || !strings.HasSuffix(r.out, "x") {
			t.Errorf("%q by hand: exit %d, %q", name, r.code, r.out)
		}
	}
}
