package bwrap

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// held starts a shell that does something and says so, and stops what it runs.
func held(t *testing.T, dir, script string) *stopped {
	t.Helper()
	// What is stopped are the children of the shell that stands for pid 1.
	cmd := exec.Command("sh", "-c", "sh -c \"$1\" & read x", "sh", script+"; echo ready; exec sleep 1000")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	s, err := stopInside(cmd.Process.Pid)
	t.Cleanup(func() {
		for _, h := range s.list {
			_ = unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0)
		}
		s.letGo()
		in.Close()
		_ = cmd.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever inside has hold of a directory, or of anything in it, is found,
// whatever name he has it by; one who has ended holds nothing.
func TestHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"nobody":                 {script: ":"},
		"one that has ended":     {script: "sleep 0 & :"},
		"in it":                  {script: "cd d", want: "is in it"},
		"beneath it":             {script: "cd d/sub", want: "is in it"},
		"a file":                 {script: "exec 3<d/f", want: "has it open"},
		"a file to write":        {script: "exec 3>>d/sub/g", want: "has it open"},
		"a file by another name": {script: "exec 3<alias", want: "has it open"},
		"a program":              {script: "cp \"$(command -v sleep)\" d/sleep; d/sleep 1000 & while ! grep -q d/sleep /proc/$!/maps; do :; done", want: "executes it"},
		"a mapping":              {script: "cp \"$(sed -n '/libc[.]so/{s,[^/]*,,;p;q}' /proc/self/maps)\" d/lib; LD_PRELOAD=$PWD/d/lib sleep 1000 & while ! grep -q d/lib /proc/$!/maps; do :; done", want: "has it mapped"},
		"beside":                 {script: "cd e; exec 3<f"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, sub := range []string{"d/sub", "e"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range []string{"d/f", "d/sub/g", "e/f"} {
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if name == "a file by another name" {
				if err := os.Link(dir+"/d/f", dir+"/alias"); err != nil {
					t.Fatal(err)
				}
			}
			s := held(t, dir, c.script)
			if why, err := s.holder(objectAt(t, dir+"/d")); err != nil || c.want == "" && why != "" || !strings.HasSuffix(why, c.want) {
				t.Errorf("%q %v, wanted %q", why, err, c.want)
			}
		})
	}
}

func objectAt(t *testing.T, path string) object {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ids, err := surveyBeneath(fd, path)
	if err != nil && !strings.Contains(err.Error(), "has another name") {
		t.Fatal(err)
	}
	o := object{identity: identifyFD(fd), path: path, dir: true, beneath: ids}
	if ids == nil { // for the test of a name elsewhere alone
		var st unix.Stat_t
		if err := unix.Stat(path+"/f", &st); err != nil {
			t.Fatal(err)
		}
		o.beneath = map[guard.FileID]bool{{Dev: st.Dev, Ino: st.Ino}: true}
	}
	return o
}

// A directory with a file that has a name elsewhere could be written through
// that one; names within it are no way around.
func TestSurveyBeneath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/d/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(dir+"/d/f", nil, 0o644), os.Link(dir+"/d/f", dir+"/d/sub/f"), os.Symlink("/etc", dir+"/d/link"), os.WriteFile(dir+"/other", nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func() (int, error) {
		fd, err := openDir(dir + "/d")
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		ids, err := surveyBeneath(fd, dir+"/d")
		return len(ids), err
	}
	if n, err := look(); n != 3 || err != nil { // sub, the file, the link
		t.Errorf("%d entries, %v", n, err)
	}
	if err := os.Link(dir+"/d/f", dir+"/out"); err != nil {
		t.Fatal(err)
	}
	if _, err := look(); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("%v", err)
	}
}

// TestMappedByPath: a file system that shows devices of its own making is told
// by its path, whatever that holds.
func TestMappedByPath(t *testing.T) {
	t.Parallel()
	const at = "7f0000000000-7f0000001000 r--s 00000000 00:2b 77                        "
	o := object{path: "/w/a b", dir: true}
	for line, want := range map[string]bool{
		at + "/w/a b/c d\n": true, at + "/w/a b/c (deleted)\n": true, at + "/w/a c/d\n": false, at + "/w/a\n": false,
		"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n": false, "7f0000000000-7f0000001000 rw-p 00000000 00:00 0    [stack]\n": false,
	} {
		if got := o.mapped(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	if o.path = "/w/a\nb"; !o.mapped(at + `/w/a\012b/c` + "\n") {
		t.Error("a line's end in a name")
	}
}
