package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// IdleExcepts says which entries of guard_workspace.except lift nothing, as far
// as the tables tell: such a policy is good, and does less than its author may
// think.
func (p *Policy) IdleExcepts() []string {
	var out []string
	for i, e := range p.GuardWorkspace.Except {
		if why := idleExcept(path.Clean(e)); why != "" {
			out = append(out, fmt.Sprintf("guard_workspace.except[%d] %q: %s", i, e, why))
		}
	}
	return out
}

func idleExcept(e string) string {
	inHome := strings.HasPrefix(e+"/", "~/")
	if slices.ContainsFunc(homeNames(), func(name string) bool { return holds(name, e) }) || !inHome && inTrees(e) {
		return ""
	}
	for _, d := range everyDefault() {
		if e == d.Text || "~/"+e == d.Text || strings.HasPrefix(e, d.Text+"/") {
			return fmt.Sprintf("%s is denied by default, which no exception lifts; name it in %s", d.Text, d.Lift)
		}
	}
	if inHome {
		return "nothing of that name is guarded, so it does nothing, unless a link in something guarded leads there, or a variable names it ($XDG_CONFIG_HOME, $ZDOTDIR)"
	}
	return "nothing of that name is guarded, so it does nothing, unless a repository lies there, a link in something guarded leads there, or git's configuration or a variable names it"
}

// holds reports whether the names of e follow one another in a path.
func holds(name, e string) bool { return strings.Contains("/"+name+"/", "/"+e+"/") }

// homeNames are the guarded names of a home.
func homeNames() []string {
	var out []string
	names := GuardedWorkspaceNames()
	for _, n := range names.Home {
		out = append(out, path.Join("~", n))
	}
	for _, a := range names.Agents {
		for _, n := range a.Names {
			out = append(out, path.Join("~", a.Dir, n))
		}
	}
	return out
}

// inTrees reports whether e may name something guarded in the workspace or in
// a repository, which may lie anywhere.
func inTrees(e string) bool {
	parts := strings.Split(e, "/")
	if slices.ContainsFunc(parts, func(s string) bool { return s == ".git" || s == "modules" || s == "worktrees" }) {
		return true
	}
	names := GuardedWorkspaceNames()
	for _, n := range slices.Concat(names.Top, names.GitDir, names.GitModule, names.GitWorktree) {
		for i := range parts {
			if rest := strings.Join(parts[i:], "/"); holds(n, e) || strings.HasPrefix(n+"/", rest+"/") {
				return true
			}
		}
	}
	return false
}

// everyDefault are the default denies of every kind of user and system.
func everyDefault() []DefaultDeny {
	var out []DefaultDeny
	for _, goos := range []string{"linux", "darwin"} {
		out = append(out, DefaultDenies(DefaultContext{GOOS: goos, Home: "/home/you"})...)
	}
	return out
}
