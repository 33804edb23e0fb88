package policy

import "strings"

// plainKind is a kind of text that needs no more than a look at its
// characters. holds and pattern say the same: the one costs a launch nothing,
// the other goes into the schema.
type plainKind struct {
	pattern string
	holds   func(string) bool
	why     string
	hint    string
}

var (
	// anyText is what an environment variable may hold.
	anyText = plainKind{`^[^\x00]*$`, func(s string) bool { return !strings.ContainsRune(s, 0) }, "it holds a NUL byte", ""}
	// someText is not empty.
	someText = plainKind{`^[^\x00]+$`, func(s string) bool { return s != "" && anyText.holds(s) }, "it is empty", "leave the field out"}
	// word is printable and without spaces.
	word = plainKind{`^[^\x00-\x20\x7f]+$`, isWord, "it is empty or holds a space or control character", ""}
	// envName is the name of an environment variable, envDrop one that may
	// end in "*". Linux forbids nothing but "=" and NUL; "*" is ours.
	envName = plainKind{`^[^=\x00*]+$`, isEnvName, `it is no name of an environment variable`, ""}
	envDrop = plainKind{
		`^(?:[^=\x00*]+\*?|\*)$`,
		func(s string) bool { return s == "*" || isEnvName(strings.TrimSuffix(s, "*")) },
		`it is no name of an environment variable, nor the start of one and a "*"`, "",
	}
	// requirement is a layer's name, with the least version after ">=".
	requirement = plainKind{
		`^[a-z][a-z0-9_]*(?:>=[1-9][0-9]{0,8})?$`, isRequirement,
		"it is no requirement", `write a layer's name: "netns", "landlock>=4"`,
	}
	// exception is a name beneath the workspace.
	exception = plainKind{
		`^` + segmentNoDot + segmentBytes + `*(?:/` + segmentPattern + `)*$|^\.` + segmentNoDot + segmentBytes + `*(?:/` + segmentPattern + `)*$`,
		isException, "it is no name beneath the workspace", `write ".vscode" or ".git/config"`,
	}
)

func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}

func isEnvName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "=*\x00")
}

func isRequirement(s string) bool {
	name, least, versioned := strings.Cut(s, ">=")
	if versioned && (least == "" || len(least) > 9 || least[0] == '0' || strings.Trim(least, "0123456789") != "") {
		return false
	}
	return name != "" && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func isException(s string) bool {
	first, _, _ := strings.Cut(s, "/")
	return first != "" && first != "." && !strings.HasPrefix(first, "..") &&
		!strings.ContainsAny(s, patternBytes+"\x00") && checkDots(s) == nil
}
