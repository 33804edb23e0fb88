package main

import (
	"fmt"

	"pinfold/guard"
	"pinfold/policy"
)

// maxFile bounds the files that the operator hands in: ten thousand paths fit
// many times over.
const maxFile = 16 << 20

// loadNeeds reads a needs file and expands its placeholders; "" is none.
func loadNeeds(file string, vars policy.Vars) (guard.Needs, error) {
	if file == "" {
		return guard.Needs{}, nil
	}
	text, err := readBounded(file, maxFile)
	var n policy.Needs
	if err == nil {
		n, err = policy.ParseNeeds(text, file)
	}
	for _, list := range [][]string{n.Read, n.Write, n.ReadOnly, n.Deny, n.Sockets} {
		for i := 0; err == nil && i < len(list); i++ {
			list[i], err = policy.Expand(policy.PathRule{Text: list[i]}, vars)
		}
	}
	if err != nil {
		return guard.Needs{}, &policy.Refusal{
			Reason: policy.Denied, Code: "needs_invalid", Subject: file, Err: err,
			Why: fmt.Sprintf("cannot read the needs in %q: %v", file, cause(err)),
			Fix: "write an object with the lists read, write, read_only, deny, hosts and sockets",
		}
	}
	return guard.Needs(n), nil
}

// readBounded reads a file, or a pipe by its descriptor, of at most limit
// bytes.
func readBounded(file string, limit int64) ([]byte, error) {
	text, err := policy.ReadInput(file, limit+1)
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}
