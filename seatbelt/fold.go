package seatbelt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold/policy"
)

// maxString is what the profile compiler takes as one string: a longer one
// makes it refuse the whole profile (1,025 bytes, by public reports).
const maxString = 1000

// maxRun bounds a run of letters that can be written together: the ways to
// divide it double with each.
const maxRun = 8

// foldedLetters are ASCII letters, and what folds to them.
type foldedLetters struct {
	ascii string
	also  []string
}

// folded are what a file system that folds case, or normalises, takes for an
// ASCII letter or two: APFS compares names by Unicode's full case folding of
// their canonical decomposition. Of everything outside ASCII only these fold
// to ASCII: the Kelvin sign, the long s, sharp s, the ligatures, the Greek
// question mark and varia.
var folded = []foldedLetters{
	{"ffi", []string{"\uFB03"}},
	{"ffl", []string{"\uFB04"}},
	{"ff", []string{"\uFB00"}},
	{"fi", []string{"\uFB01"}},
	{"fl", []string{"\uFB02"}},
	{"ss", []string{"\u00DF", "\u1E9E"}},
	{"st", []string{"\uFB05", "\uFB06"}},
	{"s", []string{"\u017F"}},
	{"k", []string{"\u212A"}},
	{";", []string{"\u037E"}},
	{"`", []string{"\u1FEF"}},
}

// foldedPath is an expression that matches path however a volume that folds
// case lets it be spelled, from root down; root itself stands already and so
// has one spelling. A name that stands already needs none of this, since the
// kernel asks by the spelling on the disk. A new name it asks by the spelling
// of whoever makes it.
func foldedPath(root, path string) (string, error) {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", fmt.Errorf("internal error: %q is not beneath %q", path, root)
	}
	var b strings.Builder
	b.WriteString(beneath(root))
	if strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", unspeakable(path, "a name that doesn't exist yet, and isn't printable ASCII, has too many spellings")
	}
	rest = strings.ToLower(rest)
	for i := 0; i < len(rest); {
		n, pattern := spellings(rest[i:])
		if n == 0 {
			return "", unspeakable(path, "it has too many spellings")
		}
		b.WriteString(pattern)
		i += n
	}
	if b.Len() > maxString {
		return "", unspeakable(path, "its expression is longer than the profile compiler takes")
	}
	return b.String(), nil
}

// spelledLike is an expression that matches a name of dir however a volume
// that folds case, or composes letters, lets it be spelled. The name stands
// already, so that an expression which matches other names of the directory as
// well is better than none: a letter outside ASCII is any letters, and of a
// long name the rest is.
func spelledLike(dir, name string) (string, error) {
	const anything = "[^/]*"
	var b strings.Builder
	b.WriteString(beneath(dir))
	if b.Len()+len(anything) > maxString {
		return "", unspeakable(dir+"/"+name, "its expression is longer than the profile compiler takes")
	}
	for rest := lower(name); rest != ""; {
		n, pattern := spellings(rest)
		if _, size := utf8.DecodeRuneInString(rest); size > 1 || !isASCII(rest[:min(len(rest), n+1)]) {
			n, pattern = max(n, size), anything // a mark that follows belongs to the letter
		}
		if n == 0 || b.Len()+len(pattern)+len(anything) > maxString {
			b.WriteString(anything)
			break
		}
		if pattern != anything || !strings.HasSuffix(b.String(), anything) {
			b.WriteString(pattern)
		}
		rest = rest[n:]
	}
	return b.String(), nil
}

// lower is a name with its ASCII letters in lower case, and no other changed:
// by other rules than the volume's one of them could become ASCII.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return r
	}, name)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// spellings is how the first letters of s may be written, and how many they
// are: one, or a run in which letters may be written together in several ways
// ("sss" is also sharp s with an s before or after it). It is nothing of a
// run that is too long.
func spellings(s string) (n int, pattern string) {
	n = 1
	for at := 0; at < n; at++ {
		for _, f := range folded {
			if len(f.ascii) > 1 && strings.HasPrefix(s[at:], f.ascii) {
				n = max(n, at+len(f.ascii))
			}
		}
	}
	switch {
	case n == 1:
		return 1, letter(s[:1])
	case n > maxRun:
		return 0, ""
	}
	return n, "(" + strings.Join(divisions(s[:n]), "|") + ")"
}

// divisions are the patterns for s, one for each way to write it in letters
// and ligatures.
func divisions(s string) []string {
	if s == "" {
		return []string{""}
	}
	var out []string
	add := func(head, rest string) {
		for _, tail := range divisions(rest) {
			out = append(out, head+tail)
		}
	}
	add(letter(s[:1]), s[1:])
	for _, f := range folded {
		if len(f.ascii) > 1 && strings.HasPrefix(s, f.ascii) {
			add(foreign, s[len(f.ascii):])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// foreign matches letters outside ASCII, whether an expression goes by bytes or
// by characters, and leaves its own text in ASCII: nothing public says which,
// nor what else the compiler takes. It denies names that nobody asked about,
// where another letter stands for one of the table's, and no others.
const foreign = "[^ -~]+"

// letter is the pattern of one ASCII character, in lower case.
func letter(s string) string {
	upper := strings.ToUpper(s)
	if slices.ContainsFunc(folded, func(f foldedLetters) bool { return f.ascii == s }) {
		alternatives := []string{exactly(s), foreign}
		if upper != s {
			alternatives = append(alternatives, upper)
		}
		return "(" + strings.Join(alternatives, "|") + ")"
	}
	if upper == s {
		return exactly(s)
	}
	return "[" + s + upper + "]"
}

// exactly is an expression for s itself. What an expression can't hold (its
// quotation mark, a control character, a letter outside ASCII) is any such,
// which denies more, never less.
func exactly(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= utf8.RuneSelf:
			if !strings.HasSuffix(b.String(), foreign) {
				b.WriteString(foreign)
			}
		case r == '"' || r < ' ' || r == 0x7f:
			b.WriteByte('.')
		case strings.ContainsRune(`\.+*?()|[]{}^$`, r):
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unspeakable(path, why string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "path_not_expressible", Subject: path,
		Why: fmt.Sprintf("cannot keep %q from being made: %s", path, why),
		Fix: "make it, so that it can be held by the name that it has, or leave it out of the policy",
	}
}
