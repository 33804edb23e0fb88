//go:build linux

package container_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/guard"
	"pinfold/policy"
)

// box is a place for one launch: a home with a workspace in it, owned by the
// lab's user, and the directories that a supervisor would make.
type box struct {
	t                             *testing.T
	l                             *lab
	e                             *engine.Engine
	home, workspace, own, results string
	env                           []string
	share                         []string
}

// newBox makes it away from /tmp, which is private inside.
func newBox(t *testing.T, l *lab) *box {
	t.Helper()
	base, err := os.MkdirTemp("/var/lib", "pfc-box-")
	if os.Getuid() != 0 {
		base, err = os.MkdirTemp(os.Getenv("HOME"), "pfc-box-")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		covers, err := filepath.Glob(base + "/own/scratch/*")
		for _, c := range covers {
			err = errors.Join(err, os.Chmod(c, 0o700))
		}
		if err := errors.Join(err, os.RemoveAll(base)); err != nil {
			t.Error(err)
		}
	})
	b := &box{t: t, l: l, e: l.connect(t), home: filepath.Join(base, "home"), own: filepath.Join(base, "own")}
	b.workspace, b.results = filepath.Join(b.home, "w"), filepath.Join(b.home, "results")
	for _, d := range []string{base, b.home, b.workspace, b.results, b.own, b.own + "/handover", b.own + "/scratch", b.own + "/relays", b.own + "/state"} {
		b.mkdir(d)
	}
	return b
}

func (b *box) mkdir(dir string) {
	b.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.give(dir)
}

// give makes the lab's user the owner.
func (b *box) give(path string) {
	b.t.Helper()
	if os.Getuid() == 0 {
		if err := os.Lchown(path, b.l.uid, b.l.gid); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *box) file(name, text string) {
	b.t.Helper()
	for d := filepath.Dir(name); len(d) > len(b.home) && strings.HasPrefix(d, b.home); d = filepath.Dir(d) {
		defer b.give(d)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.give(name)
}

func (b *box) symlink(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, name); err != nil {
		b.t.Fatal(err)
	}
	b.give(name)
}

// expand puts the box's paths into a policy or a script.
func (b *box) expand(s string) string {
	return strings.NewReplacer("@home", b.home, "@w", b.workspace, "@results", b.results, "@own", b.own).Replace(s)
}

// plan takes a policy through the guard and the engine.
func (b *box) plan(text string, argv ...string) (*container.Launch, error) {
	b.t.Helper()
	p, err := policy.Parse([]byte(b.expand(text)), "p.json")
	if err != nil {
		b.t.Fatal(err)
	}
	p.Tier = policy.TierContainer
	for i := range argv {
		argv[i] = b.expand(argv[i])
	}
	if len(argv) == 0 {
		argv = []string{"true"}
	}
	g, err := guard.GuardLaunch(b.t.Context(), p, guard.Request{
		Argv: argv, CallerDir: b.workspace, Workspace: b.workspace, Home: b.home, State: b.own + "/state",
		Env: append([]string{"HOME=" + b.home}, b.env...), UID: b.l.uid, GID: b.l.gid, Share: b.share,
	}, nil)
	if err != nil {
		return nil, err
	}
	b.t.Cleanup(func() {
		if err := g.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return b.e.Plan(b.t.Context(), g, container.Options{
		Image: b.l.load(b.t, b.e, shellImage(b.t)), Stub: busybox, Handover: b.own + "/handover", Scratch: b.own + "/scratch", Relays: b.own + "/relays",
		UID: b.l.uid, GID: b.l.gid, Labels: map[string]string{container.LabelHost: owner(b.t)},
	})
}

// outcome is what a script inside said, and how it ended.
type outcome struct {
	state  container.State
	output string
}

// run runs a shell script under a policy, in place of the stub: what holds
// for it holds for the command.
func (b *box) run(text, script string) outcome {
	b.t.Helper()
	l, err := b.plan(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.start(l, script)
}

func (b *box) start(l *container.Launch, script string) outcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := l.Covers.Make(b.own + "/scratch"); err != nil {
		b.t.Fatal(err)
	}
	for _, r := range l.Relays {
		b.mkdir(r.Dir)
	}
	s := l.Spec
	out := filepath.Join(b.results, "out")
	b.file(out, "")
	s.Mounts = append(s.Mounts, container.Mount{Source: out, Target: "/.results"})
	s.Entrypoint, s.Args, s.Env = []string{"/bin/sh"}, []string{"-c", "exec >>/.results 2>&1\n" + b.expand(script)}, l.Env
	ref, err := b.e.Create(ctx, s)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.e.Start(ctx, ref); err != nil {
		b.t.Fatal(err)
	}
	st, err := b.e.Wait(ctx, ref)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.e.Remove(ctx, ref); err != nil {
		b.t.Fatal(err)
	}
	said, err := os.ReadFile(out)
	if err != nil {
		b.t.Fatal(err)
	}
	return outcome{state: st, output: string(said)}
}

// lines is the output line by line, "name: answer".
func (o outcome) lines() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(o.output) {
		name, answer, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if ok {
			out[name] = answer
		}
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }

// checkAnswers compares every answer that is wanted.
func checkAnswers(t *testing.T, got outcome, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got.lines()); diff != "" {
		t.Errorf("answers (-want +got):\n%s\nstate: %+v\noutput:\n%s", diff, got.state, got.output)
	}
}
