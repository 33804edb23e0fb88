package recover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// contained is what is told of the processes in a container. Those that this
// user may not look into are told by name.
type contained struct {
	*containerProver
	hidden []int
}

// proveInside proves namespaces, privileges, maps and mounts of a container
// that this kernel runs, as [prover.proveInside] does of a sandbox: of its
// first process, which the engine named, and of all below.
func (p *containerProver) proveInside() (err error) {
	if p.own, err = hold(os.Getpid()); err != nil {
		return err
	}
	if p.hostSpaces, err = p.own.namespaces(); err != nil {
		return err
	}
	in := &contained{containerProver: p}
	if ended, err := p.tree.look(p.init, in.look); err != nil || ended {
		return errors.Join(err, p.init.alive())
	}
	if err := p.tree.settle(p.ctx, p.init, in.look); err != nil {
		return err
	}
	p.verdict.Processes = len(p.tree.all) + 1
	in.tell()
	p.verdict.Held = append(p.verdict.Held, ProofPrivileges)
	if err := p.proveAlone(); err != nil {
		return err
	}
	return p.steps([]step{
		{ProofMaps, p.proveMaps},
		{ProofMounts, p.proveContainerMounts},
		{ProofCanaries, func() error { return proveCanaries(p.stored) }},
	})
}

// look checks one process of the container.
func (c *contained) look(of *process, status []byte) error {
	got, err := of.namespaces()
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.hidden = append(c.hidden, of.pid)
	case err != nil:
		return err
	default:
		if err := c.compare(of, got); err != nil {
			return err
		}
	}
	return c.lookPrivileges(of, status)
}

// compare: which are the container's own says the plan; an engine of root's
// gives it no user namespace. All are the recorded ones.
func (c *contained) compare(of *process, got spaces) error {
	own := c.stored.Plan.OwnSpaces()
	for i, name := range namespaceNames {
		want, recorded := c.stored.Root.Namespaces[name]
		switch {
		case got[i] == c.hostSpaces[i] && own[name]:
			return refuted(ProofNamespaces, "process %d is in the caller's own %s namespace", of.pid, name)
		case !recorded && len(c.stored.Root.Namespaces) > 0:
			return refuted(ProofNamespaces, "the record has no %s namespace", name)
		case recorded && got[i] != want:
			return refuted(ProofNamespaces, "process %d is in another %s namespace than the recorded one", of.pid, name)
		}
	}
	return nil
}

// tell says what held, and what this user couldn't see.
func (c *contained) tell() {
	const most = 5 // to name
	hidden := slices.DeleteFunc(c.hidden, func(pid int) bool { return c.tree.all[pid] == nil && pid != c.init.pid })
	slices.Sort(hidden)
	not := func(format string, args ...any) {
		c.verdict.NotProven = append(c.verdict.NotProven, fmt.Sprintf(format, args...))
	}
	if len(c.stored.Root.Namespaces) == 0 {
		not("namespaces: whoever launched couldn't read them")
	}
	for _, pid := range hidden[:min(len(hidden), most)] {
		not("namespaces of process %d: this user can't read them", pid)
	}
	if more := len(hidden) - most; more > 0 {
		not("namespaces of %d more processes: this user can't read them", more)
	}
	if len(hidden) == 0 && len(c.stored.Root.Namespaces) > 0 {
		c.verdict.Held = append(c.verdict.Held, ProofNamespaces)
	}
}

// proveAlone: nobody has put a process into the container from outside, with
// "docker exec", that isn't below its first one and may be held less tightly.
// Who isn't root sees its own processes alone.
func (p *containerProver) proveAlone() error {
	want := p.stored.Root.Namespaces["pid"]
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == p.init.pid || p.tree.all[pid] != nil {
			continue
		}
		if err := p.belongs(pid, "pid:["+strconv.FormatUint(want, 10)+"]"); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 || want == 0 {
		p.verdict.NotProven = append(p.verdict.NotProven, "alone: this user can't see what others put into the container")
	} else {
		p.verdict.Held = append(p.verdict.Held, ProofAlone)
	}
	return nil
}

// belongs: a process in the container that the walk hasn't seen was started
// just now, by one that is in there as well.
func (p *containerProver) belongs(pid int, space string) error {
	if !isInSpace(pid, space) {
		return nil
	}
	parent, err := parentOf(pid)
	if errors.Is(err, errGone) {
		return nil
	}
	if err == nil && !isInSpace(parent, space) && isInSpace(pid, space) {
		err = refuted(ProofAlone, "process %d is in the container, and none of its processes has started it", pid)
	}
	return err
}

// isInSpace: what this user can't see is another user's, and none that could
// be told apart.
func isInSpace(pid int, link string) bool {
	var b [64]byte
	n, err := unix.Readlink("/proc/"+strconv.Itoa(pid)+"/ns/pid", b[:])
	return err == nil && string(b[:n]) == link
}

// proveContainerMounts compares the live table with the recorded one: nothing
// that the host mounts later gets into a container, so they are the same.
func (p *containerProver) proveContainerMounts() error {
	p.exactMounts = true
	return p.proveMounts()
}

// stillThere closes the chain as [prover.stillThere] does.
func (p *containerProver) stillThere() error {
	for _, held := range []*process{p.parent, p.root, p.init} {
		if err := held.alive(); err != nil {
			return unclear("the launch is just ending: %v", err)
		}
	}
	again, err := onlyChild(p.parent, p.stored.Root.Supervisor, ProofOnlyRoot, "recorded child")
	if err != nil {
		return err
	}
	again.close()
	return nil
}
