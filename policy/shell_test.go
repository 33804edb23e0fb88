package policy_test

import (
	"os/exec"
	"testing"

	"pinfold/policy"
)

// strange are words that a file's name may be.
var strange = []string{
	"", "a b", "it's", `back\slash`, "\x1b[31mred", "two\nlines", "tab\t", "\u009b2J", "right\u202eleft", "\xff\xfe", "del\x7f9", `$'x'`, "ü", "\x01" + "7", "$(id)", "`id`",
}

// TestShellQuote: bash reads what was meant, and nothing of it moves a cursor.
func TestShellQuote(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	for _, s := range strange {
		quoted := policy.ShellQuote(s)
		if quoted != policy.Printable(quoted) {
			t.Errorf("%q is printed as it is: %q", s, quoted)
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+quoted).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q is read as %q, %v", s, out, err)
		}
	}
}
