package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":              "plain",
		"ünï 日本":             "ünï 日本",
		"two\nlines\r":       `two\nlines\r`,
		"\x1b]0;title\x07":   `\x1b]0;title\a`,
		"bad\xff":            `bad\ufffd`,
		"right\u202eto left": `right\u202eto left`,
		"":                   "",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: got %q, wanted %q", in, got, want)
		}
	}
}

func TestOneLineLeavesTheMiddleOfALongOneOut(t *testing.T) {
	t.Parallel()
	path := strings.Repeat("/d", 4095/2)
	if got := oneLine("cannot use " + path + ": why"); got != "cannot use "+path+": why" {
		t.Errorf("a path was cut: %q", got)
	}
	got := oneLine("cannot use " + strings.Repeat("ü\n", 40000) + ": why")
	if len(got) > 5000 || !strings.HasPrefix(got, "cannot use ü") || !strings.HasSuffix(got, ": why") || !utf8.ValidString(got) {
		t.Errorf("got %d bytes: %.40q", len(got), got)
	}
	if again := oneLine(got); again != got {
		t.Errorf("not stable: %q", again)
	}
}

func TestListed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a/.envrc":                    "a/.envrc",
		"日本/.envrc":                   "日本/.envrc",
		"a (direnv), and 9 more/x":    `"a (direnv), and 9 more/x"`,
		"two words":                   `"two words"`,
		"line\nend":                   `"line\nend"`,
		`back\slash`:                  `"back\\slash"`,
		"right\u202eto left, \x1b[0m": `"right\u202eto left, \x1b[0m"`,
	} {
		if got := listed(in); got != want {
			t.Errorf("%q: got %s, wanted %s", in, got, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("a\x1b[2Jb\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q holds what a terminal may act on", s, got)
		}
		if again := oneLine(got); again != got {
			t.Errorf("%q: not stable: %q, then %q", s, got, again)
		}
	})
}
