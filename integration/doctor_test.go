//go:build linux

package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"

	"pinfold/doctor"
)

// where is a machine that something is wrong with.
type where struct {
	filter string   // one of filterSets
	enter  []string // what starts the shell; nil for nothing
	path   string   // PATH after the lab's own tools
}

// patient is a shell on that machine, which lasts from what breaks it to what
// puts it right.
type patient struct {
	in  io.Writer
	out *bufio.Reader
	dir string
}

// patient starts one. It reads its lines from a pipe; each line's own output
// goes to files, so that the pipe carries exit codes alone.
func (l *lab) patient(t *testing.T, w where) *patient {
	t.Helper()
	argv := append(slices.Clone(w.enter), "/bin/sh")
	env := append(l.env(), "PATH="+l.root+"/tools:"+w.path)
	if w.path == "" {
		env = append(env, "PATH="+l.root+"/tools:"+os.Getenv("PATH"))
	}
	if w.filter != "" {
		self, err := os.Executable()
		must(t, err)
		argv[0], err = exec.LookPath(argv[0])
		must(t, err)
		argv = append([]string{self}, argv...)
		env = append(env, filterVariable+"="+w.filter)
	}
	// The end of its input ends the shell, and what holds it tidies up: killing
	// that with the test's context would leave a container.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = l.root, env, os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := &patient{in, bufio.NewReader(out), l.root}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return s
}

func (s *patient) run(t *testing.T, line string) result {
	t.Helper()
	stdout, stderr := s.dir+"/session.out", s.dir+"/session.err"
	_, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null >'%s' 2>'%s'; echo $?\n", line, stdout, stderr)
	must(t, err)
	code, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the shell has gone: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(code))
	must(t, err)
	return result{n, read(t, stdout), read(t, stderr)}
}

// doctor asks for the rows.
func (s *patient) doctor(t *testing.T, l *lab) (rows []doctor.Result, works bool) {
	t.Helper()
	res := s.run(t, fmt.Sprintf("'%s' doctor --json --state '%s'", built.pinfold, l.state))
	var report doctor.Report
	if err := json.Unmarshal([]byte(res.stdout), &report); err != nil {
		t.Fatalf("no rows: %v\n%v", err, res)
	}
	if (res.code == 0) != (report.Verdict == doctor.OK || report.Verdict == doctor.Warn) || res.code > 1 {
		t.Errorf("exit %d and verdict %s", res.code, report.Verdict)
	}
	return report.Rows, res.code == 0
}

// launches runs true under three policies and says which worked, with the
// first refusal.
func (s *patient) launches(t *testing.T, l *lab) (worked [3]bool, refused string) {
	t.Helper()
	grants := doc{"write": []string{"{workspace}"}, "read": doc{"deny": []string{"{workspace}/denied"}}, "network": doc{"allow": []string{"example.com:443"}}}
	sockets := doc{"write": []string{"{workspace}"}, "sockets": []string{l.root + "/socket"}}
	for i, p := range []any{doc{}, grants, sockets} {
		res := s.run(t, fmt.Sprintf("'%s' wrap --quiet --state '%s' --workspace tmp --policy '%s' -- true", built.pinfold, l.state, l.policyFile(t, p)))
		worked[i] = res.code == 0
		if res.code != 0 && refused == "" {
			refused = res.stderr
		}
		if res.code != 0 && res.code != 125 {
			t.Errorf("launch %d: neither run nor refused: %v", i, res)
		}
	}
	return worked, refused
}

// agree compares what doctor says with what wrap does, and returns doctor's
// rows and wrap's words.
func (s *patient) agree(t *testing.T, l *lab) (rows []doctor.Result, works bool, refused string) {
	t.Helper()
	rows, works = s.doctor(t, l)
	worked, refused := s.launches(t, l)
	if works != (worked[0] && worked[1]) {
		t.Errorf("doctor says %v, and launches worked %v\n%s\n%s", works, worked, table(rows), refused)
	}
	if i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == "launch: grants" }); (rows[i].Status == doctor.OK) != (worked[1] && worked[2]) {
		t.Errorf("of sockets doctor says %+v, and launches worked %v", rows[i], worked)
	}
	return rows, works, refused
}

func table(rows []doctor.Result) string {
	var b strings.Builder
	_ = doctor.Text(&b, rows, false)
	return b.String()
}

// brokenMachine is one way to be broken.
type brokenMachine struct {
	where
	root    bool   // only root can break it so
	prepare string // typed before, line by line
	works   bool   // a process can be held all the same
	row     string // the row that tells ("" where nothing is wrong)
	codes   []string
	named   bool // wrap's refusal names the row, and its fix
	// fixed: the fix helps here; typed, after this.
	fixed bool
	after string
}

// inUserNamespace enters one of the test's own, with mounts.
var inUserNamespace = []string{"unshare", "--user", "--map-root-user", "--mount"}

// brokenMachines are all but containers, which engines make (integration/container).
func brokenMachines() map[string]brokenMachine {
	namespaceCodes := []string{"userns_filtered", "inside_container"}
	machines := map[string]brokenMachine{
		"nothing": {works: true},
		"no bubblewrap": {
			where: where{path: "/nowhere"}, prepare: "rm tools/bwrap", row: "bubblewrap", codes: []string{"bwrap_missing"}, named: true, fixed: true,
		},
		"a bubblewrap too old": {
			prepare: `rm tools/bwrap; printf '#!/bin/sh\necho bubblewrap 0.7.0\n' > tools/bwrap; chmod 755 tools/bwrap`,
			row:     "bubblewrap", codes: []string{"bwrap_too_old"}, named: true, fixed: true,
		},
		"a bubblewrap that fails": {
			prepare: `rm tools/bwrap; printf '#!/bin/sh\nexit 1\n' > tools/bwrap; chmod 755 tools/bwrap`,
			row:     "bubblewrap", codes: []string{"bwrap_broken"}, named: true,
		},
		"a setuid bubblewrap": {
			where: where{path: "/nowhere"}, prepare: `cp --remove-destination "$(realpath tools/bwrap)" tools/bwrap; chmod u+s tools/bwrap`,
			row: "bubblewrap", codes: []string{"bwrap_setuid"}, named: true, fixed: true,
		},
		"a bubblewrap for all to write": {
			where: where{path: "/nowhere"}, prepare: `cp --remove-destination "$(realpath tools/bwrap)" tools/bwrap; chmod 777 tools/bwrap`,
			row: "bubblewrap", codes: []string{"bwrap_untrusted"}, named: true, fixed: true,
		},
		"user namespaces switched off": {
			where: where{enter: inUserNamespace}, root: true,
			prepare: "mount -t tmpfs none /etc/sysctl.d\necho 0 > /proc/sys/user/max_user_namespaces",
			row:     "user namespaces", codes: []string{"userns_limit_zero"}, named: true, fixed: true,
		},
		"no user namespace left": {
			where: where{enter: inUserNamespace}, root: true,
			prepare: "mount -t tmpfs none /etc/sysctl.d\necho 1 > /proc/sys/user/max_user_namespaces",
			row:     "user namespaces", codes: []string{"userns_limit_low"}, named: true, fixed: true,
		},
		"a profile against namespaces": {
			where: where{filter: "namespaces"}, row: "user namespaces", codes: namespaceCodes, named: true,
		},
		"a profile against mount":         {where: where{filter: "mount"}, row: "user namespaces", codes: namespaceCodes, named: true},
		"a profile that ends what mounts": {where: where{filter: "mount, by death"}, row: "user namespaces", codes: namespaceCodes, named: true},
		"a profile that also ends what mounts": {
			where: where{filter: "unshare, and mount by death"}, row: "user namespaces", codes: namespaceCodes, named: true,
		},
		"a profile against seccomp": {
			where: where{filter: "seccomp"}, works: true, row: "seccomp", codes: []string{"seccomp_action_missing"},
		},
		"a profile against openat2": {
			where: where{filter: "openat2"}, row: "system calls", codes: []string{"syscall_missing"}, named: true,
		},
		"a profile against pidfd_getfd": {
			where: where{filter: "pidfd_getfd"}, works: true, row: "egress", codes: []string{"egress_proxy_only"},
		},
		"a profile against process_vm_readv": {
			where: where{filter: "process_vm_readv"}, works: true, row: "egress", codes: []string{"egress_proxy_only"},
		},
		"no Landlock": {
			where: where{filter: "landlock"}, works: true, row: "landlock", codes: []string{"landlock_missing"},
		},
		"a profile against Landlock": {
			where: where{filter: "landlock by profile"}, row: "landlock", codes: []string{"landlock_refused"}, named: true,
		},
		"a user namespace that maps nobody": {
			where: where{enter: []string{"unshare", "--user"}}, row: "user mapping", codes: []string{"user_unmapped"}, named: true,
		},
		"a read-only root": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true, works: true,
			prepare: "mount --bind . .\ncd \"$PWD\"\nmount -o remount,bind,ro /",
		},
		"a read-only root, the state in it": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true,
			prepare: "mkdir -m 700 state\nmount --bind state state\nmount -o remount,bind,ro state",
			row:     "state directory", codes: []string{"state_read_only"}, fixed: true, after: "mount -o remount,bind,rw state",
		},
		"no /proc": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true, prepare: "umount -l /proc",
			row: "mounts", codes: []string{"no_proc"}, fixed: true,
		},
		"a masked /proc": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true, prepare: "mount --bind /dev/null /proc/uptime",
			row: "fresh /proc", codes: []string{"proc_refused", "proc_masked"}, named: true, fixed: true, after: "umount /proc/uptime 2>/dev/null; :",
		},
		"a full /tmp": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true, works: true,
			prepare: "mount -t tmpfs -o size=4k,nr_inodes=2 none /tmp\nhead -c 4096 /dev/zero > /tmp/full",
		},
		"a state directory on a full disk": {
			where: where{enter: []string{"unshare", "--mount"}}, root: true,
			prepare: "mkdir -m 700 state\nmount -t tmpfs -o size=4k,nr_inodes=2,mode=700 none state\nhead -c 4096 /dev/zero > state/full",
			row:     "state directory", codes: []string{"state_full"}, fixed: true, after: "rm state/full; mount -o remount,size=64m,nr_inodes=4096 state",
		},
		"another user's state directory": {
			root: true, prepare: "mkdir -m 700 state; chown 65534 state", row: "state directory", codes: []string{"state_foreign"}, fixed: true,
		},
		"a state directory for all to write": {
			prepare: "mkdir state; chmod 777 state", row: "state directory", codes: []string{"state_shared"}, fixed: true,
		},
		"a state directory that is a file": {
			prepare: "touch state", row: "state directory", codes: []string{"state_not_directory"}, fixed: true,
		},
	} // Whoever is root there was root outside, or else nobody there knows root.
	if os.Getuid() == 0 {
		machines["a user namespace"] = brokenMachine{where: where{enter: inUserNamespace}, works: true}
	} else {
		machines["a user namespace"] = brokenMachine{
			where: where{enter: inUserNamespace}, row: "user mapping", codes: []string{"user_unmapped"}, named: true,
		}
	}
	return machines
}

// TestDoctorAgreesWithWrap breaks a machine, asks both, types what doctor says,
// and asks again.
func TestDoctorAgreesWithWrap(t *testing.T) {
	t.Parallel()
	for name, c := range brokenMachines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.root && os.Getuid() != 0 {
				t.Skip("only root can break it so")
			}
			l := newLab(t)
			l.tools(t)
			s := l.patient(t, c.where)
			for line := range strings.SplitSeq(c.prepare, "\n") {
				if res := s.run(t, line+"\n:"); res.stderr != "" {
					t.Fatalf("cannot break it: %s: %v", line, res)
				}
			}
			rows, works, refused := s.agree(t, l)
			if works != c.works {
				t.Fatalf("doctor says %v, want %v\n%s", works, c.works, table(rows))
			}
			if c.row == "" {
				return
			}
			row := c.tells(t, rows, refused)
			if !c.fixed {
				return
			}
			if res := s.run(t, row.Fix+"\n"+c.after); res.code != 0 {
				t.Fatalf("what doctor said to type fails: %v", res)
			}
			if rows, works, _ := s.agree(t, l); !works {
				t.Errorf("after\n%s\nit still doesn't work\n%s", row.Fix, table(rows))
			}
		})
	}
}

// tells checks the row that should tell, and what wrap made of it.
func (c brokenMachine) tells(t *testing.T, rows []doctor.Result, refused string) doctor.Result {
	t.Helper()
	i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == c.row })
	row := rows[i]
	if !slices.Contains(c.codes, row.Code) {
		t.Errorf("row %q has code %s, want one of %v\n%s", c.row, row.Code, c.codes, table(rows))
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(row.Fix, "# "), "\n")
	if c.named && (first == "" || !strings.Contains(refused, "hint: "+first)) {
		t.Errorf("the refusal doesn't say %q:\n%s", first, refused)
	}
	return row
}

// tools is the lab's own first directory of the PATH: bubblewrap, and what the
// fixes are typed with. A package manager installs the machine's bubblewrap.
func (l *lab) tools(t *testing.T) {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	must(t, err)
	dir := l.root + "/tools"
	for _, name := range []string{
		"sh", "true", "mv", "rm", "ln", "cp", "chmod", "tee", "mount", "umount", "cat", "printf", "head", "mkdir", "chown", "touch", "sysctl", "grep", "unshare", "realpath",
	} {
		file, err := exec.LookPath(name)
		must(t, err)
		mkdir(t, dir)
		must(t, os.Symlink(file, filepath.Join(dir, name)))
	}
	must(t, os.Symlink(bwrap, dir+"/bwrap"))
	write(t, dir+"/sudo", "#!/bin/sh\nexec \"$@\"\n", 0o755)
	install := "#!/bin/sh\ncase \"$*\" in *bubblewrap*) exec ln -sf '" + bwrap + "' '" + dir + "/bwrap';; esac\n"
	for _, manager := range []string{"apt-get", "dnf", "pacman", "apk", "zypper"} {
		write(t, filepath.Join(dir, manager), install, 0o755)
	}
	socket, err := net.Listen("unix", l.root+"/socket")
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
}

// TestDoctorColours: on a terminal, and never with NO_COLOR.
func TestDoctorColours(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, c := range map[string]struct {
		env  string
		want bool
	}{
		"a terminal": {"NO_COLOR=", true},
		"NO_COLOR":   {"NO_COLOR=1", false},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), built.pinfold, "doctor", "--state", l.state)
			cmd.Dir, cmd.Env = l.ws, append(l.env(), c.env)
			master, err := pty.Start(cmd)
			must(t, err)
			defer master.Close()
			s := &session{t: t, master: master, wait: cmd.Wait, state: func() *os.ProcessState { return cmd.ProcessState }}
			if code := s.end(); code != 0 || strings.Contains(s.seen.String(), "\x1b[32mok") != c.want {
				t.Errorf("exit %d, seen:\n%q", code, s.seen.String())
			}
		})
	}
}
