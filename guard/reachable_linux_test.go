package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// Root looks into any directory here, and into none of another user's that is
// closed to it inside: such a rule can't hold, and says how it could.
func TestRootAndClosedDirectories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's directory")
	}
	top, err := os.MkdirTemp("/srv", "pinfold-guard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	secret := filepath.Join(top, "home", "secret")
	for _, err := range []error{
		os.Chmod(top, 0o755),
		os.MkdirAll(secret, 0o755),
		os.MkdirAll(filepath.Join(top, "w"), 0o755),
		os.Chown(filepath.Dir(secret), 65534, 65534),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for mode, closed := range map[os.FileMode]bool{0o700: true, 0o710: true, 0o711: false, 0o755: false} {
		if err := os.Chmod(filepath.Dir(secret), mode); err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]*policy.Policy{
			"write": {Write: []policy.PathRule{{Text: filepath.Dir(secret), Literal: true}}},
			"deny":  {Read: policy.Read{Deny: []policy.PathRule{{Text: secret, Literal: true}}}},
			"allow": {Write: []policy.PathRule{{Text: filepath.Join(top, "w"), Literal: true}}, Read: policy.Read{Base: policy.BaseNone, Allow: []policy.PathRule{{Text: secret, Literal: true}}}},
		} {
			g, err := guard.GuardLaunch(t.Context(), p, guard.Request{Argv: []string{"true"}, CallerDir: filepath.Join(top, "w"), Workspace: filepath.Join(top, "w")}, nil)
			if err == nil {
				_ = g.Close()
			}
			r, _ := errors.AsType[*policy.Refusal](err)
			if (r != nil && r.Code == "closed_to_root" && strings.Contains(r.Fix, "--user '#65534'")) != closed {
				t.Errorf("%s with mode %04o: got %v, wanted closed=%v", name, mode, err, closed)
			}
		}
	}
}
