package policy

import (
	"errors"
	"fmt"
	"strings"
)

// The placeholders that a path may start with.
const (
	placeWorkspace = "workspace"
	placeRun       = "run"
	placeToolbelt  = "toolbelt"
	placeHome      = "home"
)

// patternBytes would be a pattern elsewhere; here they are refused, so that
// nobody believes in a rule that matches nothing.
const patternBytes = "*?[]{}"

// The regular expressions of a path, in the dialect that ECMA-262 and RE2
// share. A segment is anything but "..", without pattern characters; "./"
// may be followed by a run of "../", since a policy file often lies one
// folder below what it speaks of.
const (
	segmentBytes   = `[^/*?\[\]{}\x00]`
	segmentNoDot   = `[^/.*?\[\]{}\x00]`
	segmentPattern = `(?:` + segmentNoDot + segmentBytes + `*|\.(?:` + segmentNoDot + segmentBytes + `*)?|\.\.` + segmentBytes + `+)?`
	segmentsTail   = segmentPattern + `(?:/` + segmentPattern + `)*$`
	placePattern   = `\{(?:workspace|run|toolbelt|home)\}`
	pathAfterStart = `(?:(?:/|~/|` + placePattern + `/|\./(?:\.\./)*)` + segmentsTail + `|(?:~|` + placePattern + `|\./(?:\.\./)*\.\.)$)`
	pathPattern    = `^` + pathAfterStart

	statePattern = `^(?:(?:/|~/)` + segmentsTail + `|~$)`
	needPattern  = `^(?:(?:/|~/|` + placePattern + `/)` + segmentsTail + `|(?:~|` + placePattern + `)$)`

	literalSegmentBytes = `[^/\x00]`
	literalNoDot        = `[^/.\x00]`
	literalSegment      = `(?:` + literalNoDot + literalSegmentBytes + `*|\.(?:` + literalNoDot + literalSegmentBytes + `*)?|\.\.` + literalSegmentBytes + `+)?`
	literalPattern      = `^/` + literalSegment + `(?:/` + literalSegment + `)*$`
)

// textError is why a text can't be used, with what to write instead.
type textError struct {
	why  string
	hint string
}

func (e *textError) Error() string { return e.why }

// splitPath takes a path apart: head is "/", "~", "./" or a placeholder with
// its braces, tail what follows, without a leading slash.
func splitPath(text string) (head, tail string, err error) {
	switch {
	case text == "":
		return "", "", &textError{"it is empty", ""}
	case strings.ContainsRune(text, 0):
		return "", "", &textError{"a path holds no NUL byte", ""}
	case text[0] == '/':
		head, tail = "/", text[1:]
	case strings.HasPrefix(text, "./"):
		head, tail = "./", text[2:]
	case text[0] == '~':
		head, tail = "~", text[1:]
	case text[0] == '{':
		name, rest, found := strings.Cut(text, "}")
		if !found || !isPlaceholder(name[1:]) {
			return "", "", unknownPlaceholder(name)
		}
		head, tail = name+"}", rest
	default:
		return "", "", relativePath(text)
	}
	if head[0] != '/' && head != "./" && tail != "" {
		if tail[0] != '/' {
			return "", "", badHead(head)
		}
		tail = tail[1:]
	}
	return head, tail, checkTail(head, tail)
}

func isPlaceholder(name string) bool {
	switch name {
	case placeWorkspace, placeRun, placeToolbelt, placeHome:
		return true
	}
	return false
}

func unknownPlaceholder(text string) error {
	return &textError{
		fmt.Sprintf("it starts with the unknown placeholder %q", clip(text+"}")),
		"the placeholders are {workspace}, {run}, {toolbelt} and {home}",
	}
}

const isRelative = "it is relative"

// saysRelative reports whether err is relativePath's: where nothing is
// relative to anything, its advice is wrong.
func saysRelative(err error) bool {
	e, ok := errors.AsType[*textError](err)
	return ok && e.why == isRelative
}

// relativePath is why a text that starts with nothing known is no path.
func relativePath(text string) error {
	switch {
	case text[0] == '$':
		return &textError{"environment variables are not expanded in paths", `write "~/…" for the home, or the whole path`}
	case strings.ContainsAny(text[:1], patternBytes):
		return patternError()
	case text == ".":
		return &textError{isRelative, `write "./" for the folder of the file it stands in, or "{workspace}"`}
	}
	return relativeTo(text)
}

// relativeTo says what a path may be relative to, where it may be.
func relativeTo(text string) error {
	beside, inside := checkTail("./", text), checkTail("", text)
	switch {
	case beside != nil:
		return beside
	case inside != nil: // it starts with "..", which only a file's place may go up by
		return &textError{isRelative, fmt.Sprintf("write %q for a path that starts from the file it stands in, or the whole path", clip("./"+text))}
	}
	hint := fmt.Sprintf("write %q for a path beside the file it stands in, or %q", clip("./"+text), clip("{workspace}/"+text))
	return &textError{isRelative, hint}
}

func badHead(head string) error {
	if head == "~" {
		return &textError{"the home of another user can't be named by ~", "write the whole path"}
	}
	return &textError{fmt.Sprintf(`%s must be followed by "/" or nothing`, head), ""}
}

func patternError() error {
	return &textError{
		`it holds a pattern character (one of * ? [ ] { }), and patterns are not expanded`,
		`name the folder, or write {"path": "/…", "literal": true} if the path really holds it`,
	}
}

func checkTail(head, tail string) error {
	if strings.ContainsAny(tail, patternBytes) {
		return patternError()
	}
	if head == "./" {
		for strings.HasPrefix(tail, "../") {
			tail = tail[3:]
		}
		if tail == ".." {
			return nil
		}
	}
	return checkDots(tail)
}

// checkDots refuses "..": behind a symbolic link it isn't what it looks like.
func checkDots(tail string) error {
	for segment := range strings.SplitSeq(tail, "/") {
		if segment == ".." {
			return &textError{`it holds ".."`, `write the path that is meant without ".."`}
		}
	}
	return nil
}

// checkLiteral checks a path whose characters all stand for themselves.
func checkLiteral(text string) error {
	switch {
	case !strings.HasPrefix(text, "/"):
		return &textError{"a literal path is absolute", ""}
	case strings.ContainsRune(text, 0):
		return &textError{"a path holds no NUL byte", ""}
	}
	return checkDots(text)
}
