package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/recover"
)

// recovery measures the canaries of an ordinary launch, and proving one with
// a tree of 50 processes against reading the same entries of /proc once.
func (b *bench) recovery() error {
	record := b.root + "/record"
	argv := append([]string{"-c", `"$@"; exit $?`, "parent"}, b.wrap(b.policy, "sh", "-c", "i=0; while [ $i -lt 48 ]; do sleep 1000 & i=$((i+1)); done; echo up; cat >/dev/null")...)
	argv = slices.Insert(argv, slices.Index(argv, "--"), "--record", record)
	cmd := exec.Command("/bin/sh", argv...)
	cmd.Dir = b.ws
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = b.proofs(recover.Claim{Record: record, Parent: cmd.Process.Pid}, out)
	return errors.Join(err, in.Close(), cmd.Wait())
}

func (b *bench) proofs(c recover.Claim, out io.Reader) error {
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		return fmt.Errorf("cannot start a tree of processes: %q, %w", line, err)
	}
	var proving, reading []time.Duration
	for range 31 {
		var v recover.Verdict
		d, err := took(func() (err error) { v, err = recover.Prove(context.Background(), c); return err })
		if err != nil || !v.Adoptable {
			return fmt.Errorf("cannot prove a launch: %+v, %w", v, err)
		}
		proving = append(proving, d)
		if d, err = took(func() error { return readOnce(v.Root) }); err != nil {
			return err
		}
		reading = append(reading, d)
	}
	slices.Sort(proving)
	slices.Sort(reading)
	p, r := proving[15], reading[15]
	if err := b.canaries(c.Record); err != nil {
		return err
	}
	b.rows = append(b.rows, row{"`adopt` of a tree of 50 processes, against reading the same entries of `/proc` once", ms(p), ms(r), times(p, r), "under 10 ms"})
	return nil
}

// canaries reads from the record how long the tries took.
func (b *bench) canaries(record string) error {
	stored, err := plan.ReadRecord(record)
	if err != nil {
		return err
	}
	for _, s := range stored.Steps {
		if s.Kind != plan.KindCanaries {
			continue
		}
		t, err := plan.ParseTried(s.Detail)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("trying what the plan claims before the command runs, %d paths and %d system calls", t.Denied+t.ReadOnly+t.Writable, t.Calls)
		b.rows = append(b.rows, row{what, ms(time.Duration(t.Micros) * time.Microsecond), "", "", "under 2 ms"})
		return nil
	}
	return errors.New("cannot tell how long the canaries took: the journal doesn't say")
}

// readOnce reads what the proofs are about of every process below one.
func readOnce(root int) error {
	queue, last := []int{root}, root
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
			if err != nil {
				return err
			}
			for _, s := range strings.Fields(string(text)) {
				kid, err := strconv.Atoi(s)
				if err != nil {
					return err
				}
				queue, last = append(queue, kid), kid
			}
		}
		if err := readProcess(pid); err != nil {
			return err
		}
	}
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", last))
	return err
}

func readProcess(pid int) error {
	for _, name := range []string{"stat", "status"} {
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, name), &st); err != nil {
			return err
		}
	}
	return nil
}
