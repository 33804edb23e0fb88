package guard_test

import (
	"slices"
	"strings"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// What the caller's variables add to git's configuration names hooks and files
// as the configuration itself does.
func TestGitConfigurationOfVariables(t *testing.T) {
	t.Parallel()
	const hooks = "read-only ws/.hooks"
	for name, c := range map[string]struct {
		env  []string // "{}" is the tree's root
		want string
	}{
		"GIT_CONFIG_GLOBAL":        {env: []string{"GIT_CONFIG_GLOBAL={}/named"}, want: hooks},
		"GIT_CONFIG_SYSTEM":        {env: []string{"GIT_CONFIG_SYSTEM={}/named"}, want: hooks},
		"relative to the caller":   {env: []string{"GIT_CONFIG_GLOBAL=../named"}, want: hooks},
		"a key":                    {env: []string{"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=Core.HooksPath", "GIT_CONFIG_VALUE_1=.hooks"}, want: hooks},
		"a key beyond the count":   {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=.hooks"}},
		"a key of something else":  {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPaths", "GIT_CONFIG_VALUE_0=.hooks"}},
		"an include":               {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=include.path", "GIT_CONFIG_VALUE_0={}/named"}, want: hooks},
		"an included file":         {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=includeIf.gitdir:/x.y/.path", "GIT_CONFIG_VALUE_0={}/ws/cfg"}, want: "read-only ws/cfg"},
		"a relative include":       {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=include.path", "GIT_CONFIG_VALUE_0=../named"}},
		"parameters":               {env: []string{"GIT_CONFIG_PARAMETERS='a.b'='it'\\''s' 'core.hookspath'='.hooks'"}, want: hooks},
		"parameters, as once":      {env: []string{"GIT_CONFIG_PARAMETERS='a.b=c' 'core.hookspath=.hooks'"}, want: hooks},
		"parameters without value": {env: []string{"GIT_CONFIG_PARAMETERS='a.b' 'a.c'= 'core.hookspath'='.hooks'"}, want: hooks},
		"a template":               {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.templateDir", "GIT_CONFIG_VALUE_0={}/ws/tpl"}, want: "read-only ws/tpl/hooks"},
		"GIT_TEMPLATE_DIR":         {env: []string{"GIT_TEMPLATE_DIR={}/ws/tpl"}, want: "read-only ws/tpl/hooks"},
		"a template elsewhere":     {env: []string{"GIT_TEMPLATE_DIR={}/tpl"}},
		"a relative template":      {env: []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=init.templateDir", "GIT_CONFIG_VALUE_0=tpl"}},
		"no parameters":            {env: []string{"GIT_CONFIG_PARAMETERS='core.hookspath=.hooks"}},
		"the caller's descriptor":  {env: []string{"GIT_CONFIG_GLOBAL=/proc/self/fd/0", "GIT_CONFIG_SYSTEM=/dev/fd/1"}},
		"nothing":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.repo("ws")
			tr.files("ws/.hooks/x", "ws/tpl/hooks/post-checkout", "ws/tpl/description", "tpl/hooks/x")
			tr.write("named", "[core]\n\thooksPath = .hooks\n")
			tr.write("ws/cfg", "[a]\n")
			got := show(tr, launch{write: []string{"{workspace}"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) {
				for _, e := range c.env {
					r.Env = append(r.Env, strings.ReplaceAll(e, "{}", tr.root))
				}
				r.CallerDir = tr.path("ws")
			}}.grant(tr))
			base := []string{"read-write ws", "read-only ws/.git/config", "read-only ws/.git/hooks", "read-only ws/.git/info"}
			if c.want != "" {
				base = append(base, c.want)
			}
			slices.Sort(base)
			slices.Sort(got)
			if !slices.Equal(base, got) {
				t.Errorf("got %q, want %q", got, base)
			}
		})
	}
}
