//go:build linux

// Package daemon is an example of a program that starts sandboxes and outlives
// none of its own crashes badly: it keeps a note of what it started, and after
// a restart it adopts what it can prove, and stops the rest.
//
// Each job has a wrapper, a shell that runs pinfold and nothing else, in a
// session of its own, so that it survives the daemon. What the daemon must
// remember of it is the wrapper's pid and the digest of the plan.
//
// It obeys one line at a time and answers each with one:
//
//	start NAME COMMAND...   started NAME
//	look NAME               NAME STATE [CODE]
//	quit                    bye (nothing of any job runs any more)
//
// Before the first it says, for each job of an earlier life, "adopted NAME
// STATE" or "refused NAME PROOF", and then "ready".
package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pinfold/recover"
)

// Config is what the daemon needs.
type Config struct {
	Pinfold string   // the program
	Dir     string   // the daemon's own: notes and records
	Wrap    []string // flags for each launch
	Env     []string
}

// note is what is remembered of a job.
type note struct {
	Name   string `json:"name"`
	Parent int    `json:"parent"` // the wrapper
	Digest string `json:"digest"` // of the plan
}

// grace is how long a job gets to end when it is asked to.
const grace = 2 * time.Second

type daemon struct {
	Config
	out io.Writer
}

// Run is one life of the daemon.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	d := &daemon{Config: c, out: out}
	if err := d.recoverAll(ctx); err != nil {
		return err
	}
	d.say("ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) > 2 && words[0] == "start":
			if err := d.start(ctx, words[1], words[2:]); err != nil {
				return err
			}
			d.say("started %s", words[1])
		case len(words) == 2 && words[0] == "look":
			d.say("%s", d.look(words[1]))
		case len(words) == 1 && words[0] == "quit":
			err := d.stopAll(ctx)
			if err == nil {
				d.say("bye")
			}
			return err
		default:
			return fmt.Errorf("cannot obey %q", lines.Text())
		}
	}
	return lines.Err()
}

func (d *daemon) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *daemon) record(name string) string { return filepath.Join(d.Dir, name) }

func (d *daemon) noteFile(name string) string { return filepath.Join(d.Dir, name+".job") }

// start starts a job and notes it. A daemon that is killed in between has a
// wrapper that it doesn't know: it ends with its command.
func (d *daemon) start(ctx context.Context, name string, argv []string) error {
	// The exit keeps the shell from becoming pinfold: the wrapper is the parent.
	args := slices.Concat([]string{"-c", `"$@"; exit $?`, "wrapper", d.Pinfold, "wrap"},
		d.Wrap, []string{"--record", d.record(name), "--"}, argv)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	cmd.Env, cmd.SysProcAttr = d.Env, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // how it ended is in the record
	digest, err := d.begun(ctx, name)
	if err != nil {
		return err
	}
	b, err := json.Marshal(note{Name: name, Parent: cmd.Process.Pid, Digest: digest})
	if err == nil {
		err = os.WriteFile(d.noteFile(name), b, 0o600)
	}
	return err
}

// begun waits for the job's record, and then for its command.
func (d *daemon) begun(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		run, err := recover.OpenStarted(ctx, d.record(name))
		if err == nil {
			defer run.Close()
			return run.Info().Digest, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			return "", err
		}
		time.Sleep(5 * time.Millisecond) // the directory to watch isn't there yet
	}
}

// jobs are those of this life and of earlier ones.
func (d *daemon) jobs() ([]note, error) {
	files, err := filepath.Glob(filepath.Join(d.Dir, "*.job"))
	if err != nil {
		return nil, err
	}
	var list []note
	for _, f := range files {
		var n note
		b, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(b, &n)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// recoverAll adopts what can be proven, and stops the rest.
func (d *daemon) recoverAll(ctx context.Context) error {
	list, err := d.jobs()
	if err != nil {
		return err
	}
	for _, n := range list {
		v, err := recover.Prove(ctx, recover.Claim{Record: d.record(n.Name), Parent: n.Parent, Digest: n.Digest})
		switch {
		case err != nil:
			return err // nobody can tell: try again, adopt nothing
		case v.Adoptable:
			d.say("adopted %s %s", n.Name, v.State)
		default:
			d.say("refused %s %s", n.Name, v.Proof)
			err = d.drop(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop ends a job that isn't adopted: by its record where that can be read,
// and the wrapper with all below it in any case.
func (d *daemon) drop(ctx context.Context, n note) error {
	if err := d.stop(ctx, n.Name); err != nil {
		d.say("# cannot stop %s by its record: %v", n.Name, err)
	}
	// The wrapper leads a session, and so a process group, that has pinfold in
	// it, whose end is the sandbox's.
	if err := syscall.Kill(-n.Parent, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return os.Remove(d.noteFile(n.Name))
}

func (d *daemon) stop(ctx context.Context, name string) error {
	run, err := recover.OpenStarted(ctx, d.record(name))
	if err != nil {
		return err
	}
	defer run.Close()
	_, err = run.Stop(ctx, grace)
	return err
}

func (d *daemon) stopAll(ctx context.Context) error {
	list, err := d.jobs()
	if err != nil {
		return err
	}
	for _, n := range list {
		err = errors.Join(err, d.stop(ctx, n.Name), os.Remove(d.noteFile(n.Name)))
	}
	return err
}

func (d *daemon) look(name string) string {
	i := recover.Look(d.record(name))
	switch {
	case i.Why != "":
		return name + " unclear"
	case i.Exit != nil:
		return fmt.Sprintf("%s %s %d", name, i.State, i.Exit.Code)
	}
	return name + " " + string(i.State)
}
