package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is a run: a lab, and the rows found so far.
type bench struct {
	settings
	root, ws, run, state, policy string
	// as is who runs everything, where that isn't the caller.
	as   *syscall.Credential
	rows []row
}

// row is one line of the table.
type row struct {
	what, ours, peer, ratio, aim string
}

func newBench(s settings) (*bench, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp(home, "pinfold-bench-")
	if err != nil {
		return nil, err
	}
	b := benchIn(s, root)
	return b, b.lay()
}

func benchIn(s settings, root string) *bench {
	return &bench{settings: s, root: root, ws: root + "/ws", run: root + "/run", state: root + "/state", policy: root + "/policy.json"}
}

// lay makes what every launch needs.
func (b *bench) lay() error {
	return errors.Join(os.Mkdir(b.ws, 0o755), os.Mkdir(b.run, 0o755), os.WriteFile(b.policy, []byte(`{"write": ["{workspace}"]}`), 0o644))
}

// command is run in the workspace.
func (b *bench) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.ws
	if b.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.as}
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.root}
	}
	return cmd
}

// wrap is a command line of pinfold.
func (b *bench) wrap(policy string, argv ...string) []string {
	return append([]string{b.pinfold, "wrap", "--quiet", "--policy", policy, "--workspace", b.ws, "--run-dir", b.run, "--state", b.state, "--"}, argv...)
}

// side is one of the things compared: it makes the command of its next run.
type side struct {
	name string
	make func() (*exec.Cmd, error)
	// told: the command prints the seconds that count, last.
	told bool
}

// transfer is a side whose curl tells how long the transfer took, which the
// start of a process and of a sandbox is no part of.
func (b *bench) transfer(name string, argv ...string) side {
	s := b.plain(name, argv...)
	s.told = true
	return s
}

// curlTimes has curl print what transfer reads.
const curlTimes = "%{time_total}"

// plain is a side whose runs are all alike.
func (b *bench) plain(name string, argv ...string) side {
	return side{name: name, make: func() (*exec.Cmd, error) { return b.command(argv...), nil }}
}

// sameMounts is plain bubblewrap with the mounts of a plan: no filter, no
// stub, no check, no supervisor.
func (b *bench) sameMounts(argv ...string) (side, error) { return b.mountsOf(b.policy, argv...) }

func (b *bench) mountsOf(policy string, argv ...string) (side, error) {
	out, err := b.command(b.pinfold, "plan", "--json", "--policy", policy, "--workspace", b.ws, "--run-dir", b.run, "--state", b.state, "--", "true").Output()
	if err != nil {
		return side{}, fmt.Errorf("cannot plan: %w", err)
	}
	var plan struct {
		Args []string
		Tool struct{ Path string }
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return side{}, fmt.Errorf("cannot read the plan: %w", err)
	}
	if at := slices.Index(plan.Args, "--seccomp"); at >= 0 {
		plan.Args = slices.Delete(plan.Args, at, at+2)
	}
	return side{name: "bubblewrap", make: func() (*exec.Cmd, error) { return b.bubblewrap(plan.Tool.Path, plan.Args, argv) }}, nil
}

// bubblewrap fills in the descriptors, which serve once.
func (b *bench) bubblewrap(tool string, args, argv []string) (*exec.Cmd, error) {
	cmd := b.command(tool)
	for _, arg := range args {
		if strings.HasPrefix(arg, "{fd:") {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return nil, err
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
			arg = fmt.Sprint(2 + len(cmd.ExtraFiles))
		}
		cmd.Args = append(cmd.Args, arg)
	}
	cmd.Args = append(append(cmd.Args, "--"), argv...)
	return cmd, nil
}

// once runs one command and says how long it took.
func (s side) once() (time.Duration, error) {
	cmd, err := s.make()
	if err != nil {
		return 0, err
	}
	defer func() {
		for _, f := range cmd.ExtraFiles {
			f.Close()
		}
	}()
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %w\n%s", s.name, err, out)
	}
	if s.told {
		return time.ParseDuration(strings.TrimSpace(string(out)) + "s")
	}
	return time.Since(began), nil
}

// turns runs the sides in turn and returns each one's median.
func turns(runs int, sides ...side) ([]time.Duration, error) {
	took := make([][]time.Duration, len(sides))
	for range runs {
		for i, s := range sides {
			d, err := s.once()
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], d)
		}
	}
	medians := make([]time.Duration, len(sides))
	for i := range took {
		slices.Sort(took[i])
		medians[i] = took[i][len(took[i])/2]
	}
	return medians, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func times(a, b time.Duration) string { return fmt.Sprintf("%.2f ×", float64(a)/float64(b)) }

// write makes a policy beside the usual one.
func (b *bench) write(name string, policy map[string]any) (string, error) {
	text, err := json.Marshal(policy)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.root, name)
	return path, os.WriteFile(path, text, 0o644)
}
