package seccomp

import (
	"fmt"
	"strings"
)

// Table is a filter as text to be reviewed: the rules with their reasons,
// then the instructions.
func Table(arch string, mode Mode, program []byte) (string, error) {
	listing, err := Disassemble(arch, program)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, mode %s: %d instructions\n\n", arch, mode, len(program)/instructionSize)
	fmt.Fprintf(&out, "Any other architecture or ABI: KILL_PROCESS.\n")
	fmt.Fprintf(&out, "System calls above %d: ENOSYS.\nRefused, or handed over:\n\n", Newest)
	why := ""
	for _, r := range Rules(arch, mode) {
		if r.Why != why {
			why = r.Why
			fmt.Fprintf(&out, "  # %s\n", why)
		}
		fmt.Fprintf(&out, "  %-6s %s\n", r.verdict(), r)
	}
	fmt.Fprintf(&out, "\nAll else: ALLOW.\n\n%s", listing)
	return out.String(), nil
}

// verdict is the answer in words.
func (r Rule) verdict() string {
	if r.HandOver {
		return "NOTIFY"
	}
	return r.Answer.String()
}

// String is the rule as a call with its conditions.
func (r Rule) String() string {
	var parts []string
	for _, a := range r.Args {
		parts = append(parts, a.String())
	}
	return r.Syscall + "(" + strings.Join(parts, ", ") + ")"
}

// String is the condition, as arg0&0xf not in {1 5}.
func (a Arg) String() string {
	subject := fmt.Sprintf("arg%d", a.Index)
	if a.Mask != 0 {
		subject += fmt.Sprintf("&0x%x", a.Mask)
	}
	if a.NotIn != nil {
		return subject + " not in " + set(a.NotIn)
	}
	if len(a.In) == 1 {
		return fmt.Sprintf("%s == 0x%x", subject, a.In[0])
	}
	return subject + " in " + set(a.In)
}

func set(list []uint32) string {
	var parts []string
	for _, v := range list {
		parts = append(parts, fmt.Sprintf("0x%x", v))
	}
	return "{" + strings.Join(parts, " ") + "}"
}
