package guard_test

import (
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// TestExceptionsLieInTheProtectedSet: a workspace, run directory or home may
// lie in a protected path or hold one, but not be one.
func TestExceptionsLieInTheProtectedSet(t *testing.T) {
	t.Parallel()
	set := map[string]func(*guard.Request, string){
		"workspace":     func(r *guard.Request, p string) { r.Workspace = p },
		"run directory": func(r *guard.Request, p string) { r.RunDir = p },
		"home":          func(r *guard.Request, p string) { r.Home = p },
	}
	for name, exception := range set {
		for where, code := range map[string]string{"daemon": "protected_exception", "daemon/in": ""} {
			t.Run(name+" at "+where, func(t *testing.T) {
				t.Parallel()
				tr := newTree(t)
				tr.dirs("daemon/in")
				l := launch{protect: []string{"daemon"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
					exception(r, tr.path(where))
				}}
				if code == "" {
					l.grant(tr)
					return
				}
				l.refused(tr, code)
			})
		}
	}
}

// TestExceptionThatIsNotGranted: a workspace in a protected path may be one that
// the policy shows nothing of.
func TestExceptionThatIsNotGranted(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.dirs("daemon/in")
	l := launch{base: policy.BaseNone, allow: []string{"ws"}, protect: []string{"daemon"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
		r.Workspace, r.Dir = tr.path("daemon/in"), tr.path("ws")
	}}
	for _, e := range l.grant(tr).Entries() {
		if e.Access != guard.ReadOnly && e.Access != guard.ReadWrite && e.Access != guard.Deny && e.Access != guard.Empty {
			t.Errorf("an entry that says nothing: %+v", e)
		}
	}
}
