package guard

import (
	"strings"
	"testing"
)

// FuzzConfigOfEnv: whatever stands in the variables, nothing panics, and what is
// quoted whole is read back.
func FuzzConfigOfEnv(f *testing.F) {
	f.Add("'core.hookspath'='x'", "h")
	f.Add("'a'='b", "it's")
	f.Add("''\\''", "!")
	f.Fuzz(func(t *testing.T, parameters, hooks string) {
		configOfEnv([]string{"GIT_CONFIG_COUNT=" + parameters, "GIT_CONFIG_PARAMETERS=" + parameters})
		if hooks == "" {
			return
		}
		quoted := "'core.hooksPath'='" + strings.ReplaceAll(hooks, "'", `'\''`) + "'"
		if c := configOfEnv([]string{"GIT_CONFIG_PARAMETERS='a.b' " + quoted}); len(c.hooksPath) != 1 || c.hooksPath[0] != hooks {
			t.Errorf("%s: got %q", quoted, c.hooksPath)
		}
	})
}
