package guard_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// Credentials that a variable moves are denied where it says, unless it names
// what no launch can do without.
func TestMovedCredentials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variable, value string // "{}" is the tree's root
		prepare         func(*tree)
		allow           []string
		want            string // an entry
		note            string
	}{
		"a file":                  {variable: "KUBECONFIG", value: "{}/e/kube", want: "empty e/kube"},
		"the second of a list":    {variable: "KUBECONFIG", value: "{}/none:{}/e/kube", want: "empty e/kube"},
		"a directory":             {variable: "GNUPGHOME", value: "{}/e", want: "empty e"},
		"names in a directory":    {variable: "CARGO_HOME", value: "{}/e", want: "empty e/credentials.toml"},
		"through a link":          {variable: "NETRC", value: "{}/l", want: "empty e/kube"},
		"lifted":                  {variable: "KUBECONFIG", value: "{}/e/kube", allow: []string{"e/kube"}},
		"relative":                {variable: "KUBECONFIG", value: "e/kube"},
		"the root":                {variable: "GNUPGHOME", value: "/", note: "$GNUPGHOME names"},
		"in the root":             {variable: "GNUPGHOME", value: "/usr", note: "$GNUPGHOME names"},
		"the home":                {variable: "GNUPGHOME", value: "{}/home", note: "$GNUPGHOME names"},
		"the workspace":           {variable: "AZURE_CONFIG_DIR", value: "{}/ws", note: "$AZURE_CONFIG_DIR names"},
		"above the workspace":     {variable: "AZURE_CONFIG_DIR", value: "{}", note: "$AZURE_CONFIG_DIR names"},
		"a directory for a file":  {variable: "KUBECONFIG", value: "{}/e", note: "no such file"},
		"in the run directory":    {variable: "GNUPGHOME", value: "{}/run/gnupg"},
		"a home for a directory":  {variable: "CARGO_HOME", value: "{}/home", want: "empty home/credentials.toml"},
		"in the workspace itself": {variable: "KUBECONFIG", value: "{}/ws/kube", want: "empty ws/kube"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files("e/kube", "e/credentials.toml", "home/credentials.toml", "run/gnupg/k", "ws/kube")
			tr.link("/root/e/kube", "l")
			g := launch{write: []string{"{workspace}"}, allow: c.allow, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				r.Env = append(r.Env, c.variable+"="+strings.ReplaceAll(c.value, "{}", tr.root))
				r.RunDir = tr.path("run")
			}}.grant(tr)
			got := slices.DeleteFunc(show(tr, g), func(s string) bool { return !strings.HasPrefix(s, "empty") })
			if c.want != "" && !slices.Contains(got, c.want) || c.want == "" && len(got) > 0 {
				t.Errorf("denied: %q, wanted %q", got, c.want)
			}
			if notes := strings.Join(g.Notes(), "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "$") {
				t.Errorf("notes = %q", notes)
			}
		})
	}
}

// What a link in a denied directory leads to is denied under its own name.
func TestLinksInDeniedDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target string
		allow  []string
		want   []string
	}{
		"a key elsewhere":     {target: "/root/store/id", want: []string{"empty home/.ssh", "empty store/id"}},
		"relative":            {target: "../../store/id", want: []string{"empty home/.ssh", "empty store/id"}},
		"a directory":         {target: "/root/store", want: []string{"empty home/.ssh", "empty store"}},
		"in the same":         {target: "known_hosts", want: []string{"empty home/.ssh"}},
		"nowhere":             {target: "/root/none", want: []string{"empty home/.ssh"}},
		"the home":            {target: "/root/home", want: []string{"empty home/.ssh"}},
		"the root":            {target: "/", want: []string{"empty home/.ssh"}},
		"a loop":              {target: "l", want: []string{"empty home/.ssh"}},
		"lifted":              {target: "/root/store/id", allow: []string{"~/.ssh/l"}, want: []string{"empty home/.ssh"}},
		"lifted by real name": {target: "/root/store/id", allow: []string{"store/id"}, want: []string{"empty home/.ssh"}},
		"another user's":      {target: "/etc/hosts", want: []string{"empty home/.ssh"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "another user's" && os.Getuid() != 0 {
				t.Skip("only root can grant what another user may not rename")
			}
			tr := newTree(t)
			tr.files("store/id", "home/.ssh/known_hosts")
			tr.link(c.target, "home/.ssh/l")
			g := launch{allow: c.allow, edit: func(_ *tree, _ *policy.Policy, r *guard.Request) {
				if name == "another user's" {
					r.UID = 4242
				}
			}}.grant(tr)
			got := slices.DeleteFunc(show(tr, g), func(s string) bool { return !strings.HasPrefix(s, "empty") })
			if !slices.Equal(got, c.want) {
				t.Errorf("denied: %q, wanted %q", got, c.want)
			}
		})
	}
}
