package bwrap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pinfold/policy"
)

// MaxMounts bounds the mounts of one launch: bubblewrap reads the whole mount
// table again for each, so 500 cost 0.4 s here and 2,500 ten seconds.
const MaxMounts = 300

// maxArgs is bubblewrap's own bound on its arguments, those that it reads
// from --args included; the rest of its command line has a few.
const maxArgs = 9000 - 8

// checkSize refuses a launch that bubblewrap can't take, or not in good time.
func checkSize(b *builder, l *Launch, in input) error {
	switch {
	case b.ops > MaxMounts:
		return sizeRefusal(in, "too_many_mounts", fmt.Sprintf("%d mounts, and bubblewrap takes %d in good time", b.ops, MaxMounts))
	case len(l.Args) > maxArgs:
		return sizeRefusal(in, "too_many_arguments", fmt.Sprintf("%d arguments, and bubblewrap takes %d", len(l.Args), maxArgs))
	}
	return nil
}

func sizeRefusal(in input, code, what string) error {
	causes := causes(in)
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: code, Subject: "bubblewrap", Rule: causes[0],
		Why: fmt.Sprintf("cannot build the sandbox: the rules need %s; most come from %s", what, strings.Join(causes, ", ")),
		Fix: "deny or grant whole directories instead of the many paths in them",
	}
}

// causes names the sources of most rules, with their counts, at most three.
func causes(in input) []string {
	count := map[string]int{}
	for _, e := range in.Entries {
		count[listOf(e.Rule.Source)]++
	}
	for _, p := range in.Pins {
		count["directories pinned in "+p.Root]++
	}
	var names []string
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	var out []string
	for _, name := range names[:min(3, len(names))] {
		out = append(out, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	return append(out, "the process tier")[:max(1, len(out))]
}

// listOf is a rule's source less its place in a list: "p.json:4:12
// read.deny[7]" is one of many of "read.deny".
func listOf(source string) string {
	fields := strings.Fields(source)
	if n := len(fields); n > 0 && strings.HasSuffix(fields[n-1], "]") {
		list, _, _ := strings.Cut(fields[n-1], "[")
		return list
	}
	return source
}
