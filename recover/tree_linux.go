package recover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxProcesses bounds a tree. Sandboxes with more are told apart from a fork
// bomb by nobody, so there is no answer about them.
const maxProcesses = 5000

// maxWalks is how often the tree is walked before giving up on two walks that
// agree: a build that starts a thousand compilers settles within a few.
const maxWalks = 50

// tree is every process below a root, held.
type tree struct {
	all    map[int]*process
	status []byte // of the one that is looked at
}

// look is told the process and its status.
type look func(*process, []byte) error

func newTree() *tree { return &tree{all: map[int]*process{}} }

func (t *tree) close() {
	for _, p := range t.all {
		p.close()
	}
}

// settle walks from root until two walks find the same processes, looking at
// each new one with look. Processes that ended are let go of.
func (t *tree) settle(ctx context.Context, root *process, look look) error {
	var last []int
	for range maxWalks {
		if err := ctx.Err(); err != nil {
			return unclear("the processes don't settle: %v", err)
		}
		now, err := t.walk(root, look)
		if err != nil {
			return err
		}
		if last != nil && slices.Equal(last, now) {
			return nil
		}
		last = now
	}
	return unclear("the processes below %d don't settle", root.pid)
}

// walk visits the tree once and returns the pids in it, sorted.
func (t *tree) walk(root *process, look look) ([]int, error) {
	seen := map[int]bool{}
	queue := []*process{root}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		kids, err := p.children()
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, pid := range kids {
			if len(seen) >= maxProcesses {
				return nil, unclear("more than %d processes", maxProcesses)
			}
			child, err := t.visit(pid, look)
			if err != nil {
				return nil, err
			}
			if child != nil && !seen[pid] {
				seen[pid] = true
				queue = append(queue, child)
			}
		}
	}
	if err := t.forget(seen); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(t.all)), nil
}

// visit holds and looks at a process that is new; nil means that it has gone
// or is a zombie, which runs nothing. Whether one that is known has ended
// since, and another has its pid, is asked for all at once when the walk is
// over.
func (t *tree) visit(pid int, look look) (*process, error) {
	if p := t.all[pid]; p != nil {
		return p, nil
	}
	p, err := grab(pid)
	if errors.Is(err, errGone) {
		return nil, nil //nolint:nilnil // documented: it has gone
	}
	if err != nil {
		return nil, err
	}
	ended, err := t.look(p, look)
	if ended || err != nil {
		p.close()
		return nil, err
	}
	t.all[pid] = p
	return p, nil
}

// look reads the status of a process and asks look about it, unless it has
// ended. What is seen of one that is just ending may be nonsense; one that goes
// on was there to be seen.
func (t *tree) look(p *process, look look) (ended bool, err error) {
	t.status, err = p.readInto(t.status[:0], "status")
	if state := field(t.status, "State"); err == nil && (strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")) {
		if p.alive() != nil {
			return true, nil
		}
		if err = p.useThread(); err == nil {
			t.status, err = p.readInto(t.status[:0], "status")
		}
	}
	if err == nil {
		err = look(p, t.status)
	}
	gone := errors.Is(err, errGone)
	switch {
	case err == nil:
		return false, nil
	case p.alive() != nil, gone && p.endsWithin(dyingTime):
		return true, nil
	case gone:
		return false, unclear("process %d can't be looked at: %v", p.pid, err)
	}
	return false, err
}

// forget lets go of those that the walk didn't find again, and of those that
// have ended, by one look at all: a pidfd is readable then, pidfd_open(2).
func (t *tree) forget(seen map[int]bool) error {
	var polls []unix.PollFd
	var held []*process
	for pid, p := range t.all {
		if !seen[pid] {
			t.drop(p)
			continue
		}
		held, polls = append(held, p), append(polls, unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN})
	}
	_, err := unix.Poll(polls, 0)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(polls, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot ask for %d processes: %w", len(polls), err)
	}
	for i, poll := range polls {
		if poll.Revents != 0 {
			t.drop(held[i])
		}
	}
	return nil
}

func (t *tree) drop(p *process) {
	p.close()
	delete(t.all, p.pid)
}
