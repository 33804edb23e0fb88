package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/policy"
)

// namespaceNames are those that are recorded, by their name in /proc/PID/ns.
var namespaceNames = [...]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}

// noteFacts adds to the root file what the container looks like from outside
// while the stub waits for its Go, so that it can be compared later. What this
// user may not read stays out: of a container that an engine of root's runs
// without a user namespace only root can read the namespaces.
func noteFacts(root *plan.Root, p *plan.Plan) (err error) {
	init := root.Init.PID
	if root.Mounts, err = mountTable(init); err != nil {
		return err
	}
	if root.Namespaces, err = namespacesOf(init); err != nil {
		return err
	}
	if err := checkSpaces(root.Namespaces, p); err != nil {
		return err
	}
	if root.UIDMap, err = idMap(init, "uid_map"); err != nil {
		return err
	}
	if root.GIDMap, err = idMap(init, "gid_map"); err != nil {
		return err
	}
	root.Filters, err = filtersOf(map[string]int{"init": init, "command": root.Command.PID})
	return err
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func mountTable(pid int) ([]string, error) {
	b, err := os.ReadFile(procFile(pid, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the container's mount table: %w", err)
	}
	return plan.MountTable(bytes.NewReader(b))
}

// namespacesOf is nil where this user may not tell, ptrace(2).
func namespacesOf(pid int) (map[string]uint64, error) {
	out := make(map[string]uint64, len(namespaceNames))
	for _, name := range namespaceNames {
		var st unix.Stat_t
		err := unix.Stat(procFile(pid, "ns/"+name), &st)
		if errors.Is(err, fs.ErrPermission) {
			return nil, nil //nolint:nilnil // documented: it can't be told
		}
		if err != nil {
			return nil, fmt.Errorf("cannot look at the container's %s namespace: %w", name, err)
		}
		out[name] = st.Ino
	}
	return out, nil
}

// checkSpaces refuses a container that an engine has left in a namespace of
// this process's, though the plan says that it has its own.
func checkSpaces(got map[string]uint64, p *plan.Plan) error {
	if len(got) == 0 {
		return nil
	}
	here, err := namespacesOf(os.Getpid())
	if err != nil {
		return err
	}
	for name := range p.OwnSpaces() {
		if got[name] == here[name] {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "layer_missing", Subject: name,
				Why: fmt.Sprintf("cannot launch: %s has left the container in the host's %s namespace", p.Backend, name),
				Fix: "use the process tier, or another engine",
			}
		}
	}
	return nil
}

// idMap is a map of users or groups in one line.
func idMap(pid int, name string) (string, error) {
	b, err := os.ReadFile(procFile(pid, name))
	if err != nil {
		return "", fmt.Errorf("cannot read the container's %s: %w", name, err)
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, ","), nil
}

// filtersOf counts seccomp programs, which kernels before 5.9 don't.
func filtersOf(roles map[string]int) (map[string]int, error) {
	const key = "\nSeccomp_filters:"
	out := map[string]int{}
	for role, pid := range roles {
		b, err := os.ReadFile(procFile(pid, "status"))
		if err != nil {
			return nil, fmt.Errorf("cannot count the filters of the container's %s: %w", role, err)
		}
		_, rest, counted := strings.Cut(string(b), key)
		if !counted {
			return nil, nil //nolint:nilnil // documented: it isn't counted
		}
		line, _, _ := strings.Cut(rest, "\n")
		if out[role], err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("cannot count the filters of the container's %s: %w", role, err)
		}
	}
	return out, nil
}
