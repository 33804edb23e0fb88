package seatbelt

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// fold is how APFS compares names: the case folding of the decomposition.
func fold(s string) string {
	return norm.NFD.String(cases.Fold().String(norm.NFD.String(s)))
}

// TestFoldedIsComplete: of all of Unicode nothing but the table folds to ASCII.
func TestFoldedIsComplete(t *testing.T) {
	t.Parallel()
	table := map[string]string{}
	for _, f := range folded {
		for _, a := range f.also {
			table[a] = f.ascii
		}
	}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		s := string(r)
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Mn, r) {
			continue
		}
		f := fold(s)
		ascii := !strings.ContainsFunc(f, func(r rune) bool { return r >= 0x80 })
		if want, ok := table[s]; ok != ascii || ok && f != want {
			t.Errorf("%q (%U) folds to %q, and the table says %q", s, r, f, want)
		}
	}
}

// byBytes is s as an expression sees it that goes by bytes.
func byBytes(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteRune(rune(c))
	}
	return b.String()
}

func TestFoldedPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path string
		same []string
		not  []string
	}{
		{"/w/.env", []string{"/w/.env", "/w/.ENV", "/w/.eNv"}, []string{"/w/xenv", "/w/.envx", "/W/.env", "/w/.en", "/w/a/.env"}},
		{"/w/.git/hooks", []string{"/w/.git/hook\u017f", "/w/.GIT/hoo\u212as"}, []string{"/w/.git/hook"}},
		{"/w/config", []string{"/w/con\ufb01g", "/w/CONFIG"}, []string{"/w/cong", "/w/confog"}},
		{"/w/offs", []string{"/w/o\ufb00s", "/w/off\u017f"}, []string{"/w/ofs"}},
		{"/w/sss", []string{"/w/\u00dfs", "/w/s\u00df", "/w/\u1e9eS"}, []string{"/w/\u00df", "/w/ss"}},
		{"/w/office", []string{"/w/o\ufb03ce", "/w/o\ufb00ice", "/w/of\ufb01ce"}, nil},
		{"/w/a;b", []string{"/w/A\u037eb"}, nil},
		{"/w/a+b(c)", []string{"/w/A+B(C)"}, []string{"/w/aab(c)"}},
	} {
		p, err := foldedPath("/w", c.path)
		if err != nil {
			t.Fatal(err)
		}
		if !isASCII(p) {
			t.Errorf("%s: %s", c.path, p)
		}
		re := regexp.MustCompile(p + "$")
		for _, s := range c.same {
			if !re.MatchString(s) || !re.MatchString(byBytes(s)) {
				t.Errorf("%s: %q doesn't match %s", c.path, s, p)
			}
		}
		for _, s := range c.not {
			if re.MatchString(s) {
				t.Errorf("%s: %q matches %s", c.path, s, p)
			}
		}
	}
}

// TestFoldedRoot: a directory whose own name isn't ASCII.
func TestFoldedRoot(t *testing.T) {
	t.Parallel()
	const root = "/Users/\u00e4nn\u00e9/w\"x"
	p, err := foldedPath(root, root+"/.env")
	must(t, err)
	re := regexp.MustCompile(p + "$")
	for s, want := range map[string]bool{
		root + "/.ENV": true, byBytes(root + "/.env"): true, "/Users/ann/w/.env": false, root + "/a/.env": false, root + "/x": false,
	} {
		if re.MatchString(s) != want {
			t.Errorf("%q: %s", s, p)
		}
	}
	if !isASCII(p) || strings.Contains(p, `"`) {
		t.Error(p)
	}
}

func TestFoldedPathRefuses(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"/w/caf\u00e9", "/w/" + strings.Repeat("a", 600), "/w/" + strings.Repeat("s", 20), "/other", "/w/a\nb"} {
		if got, err := foldedPath("/w", p); err == nil {
			t.Errorf("%q: got %s", p, got)
		}
	}
}

// TestFoldedSpellings: whatever folds alike is matched.
func TestFoldedSpellings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[ a-zA-Z0-9._;fist-]{1,12}`).Draw(t, "name")
		pattern, err := foldedPath("/w", "/w/"+name)
		if err != nil {
			t.Skip()
		}
		spelled := respell(t, name)
		if fold(spelled) != fold(name) {
			t.Fatalf("the test's spelling %q isn't %q", spelled, name)
		}
		if re := regexp.MustCompile(pattern + "$"); !re.MatchString("/w/"+spelled) || !re.MatchString(byBytes("/w/"+spelled)) {
			t.Fatalf("%q is %q on such a volume, and isn't matched by %s", spelled, name, pattern)
		}
		other := rapid.StringMatching(`[a-z.]{1,12}`).Draw(t, "other")
		if fold(other) != fold(name) && regexp.MustCompile(pattern+"$").MatchString("/w/"+other) {
			t.Fatalf("%q is matched by %s of %q", other, pattern, name)
		}
	})
}

func TestSpelledLike(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 255)
	for _, c := range []struct {
		name string
		same []string
		not  []string
	}{
		{"config", []string{"config", "CONFIG", "con\ufb01g"}, []string{"config.lock", "x/config", "confi", "aconfig"}},
		{"caf\u00e9.key", []string{"caf\u00e9.key", "CAFE\u0301.KEY", "cafe\u0301.key"}, []string{"caf\u00e9.keys", "caf/e.key", "tea.key"}},
		{"cafe\u0301", []string{"caf\u00e9", "CAF\u00c9", "cafe\u0301"}, []string{"ca"}},
		{"\u0130", []string{"i\u0307"}, nil},
		{long, []string{long, strings.ToUpper(long)}, []string{"x" + long[1:]}},
		{strings.Repeat("s", 40), []string{strings.Repeat("\u00df", 20)}, []string{"a/" + strings.Repeat("s", 40)}},
		{`a"b`, []string{`a"b`, `A"b`}, nil},
	} {
		p, err := spelledLike("/w", c.name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(p, `"`) || len(p) > maxString {
			t.Errorf("%q: %s", c.name, p)
		}
		re := regexp.MustCompile(p + "$")
		for _, s := range c.same {
			if !re.MatchString("/w/" + s) {
				t.Errorf("%q: %q doesn't match %s", c.name, s, p)
			}
		}
		for _, s := range c.not {
			if re.MatchString("/w/" + s) {
				t.Errorf("%q: %q matches %s", c.name, s, p)
			}
		}
	}
	if got, err := spelledLike("/"+strings.Repeat("d/", 600), "x"); err == nil {
		t.Errorf("got %s", got)
	}
}

// TestSpelledLikeAll: whatever folds alike is matched, of names of any letters.
func TestSpelledLikeAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := strings.ReplaceAll(rapid.StringN(1, 12, 40).Draw(t, "name"), "/", "x")
		pattern, err := spelledLike("/w", name)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{name, norm.NFC.String(name), norm.NFD.String(name), strings.ToUpper(name), strings.ToLower(name), fold(name), norm.NFC.String(fold(name))} {
			if fold(other) == fold(name) && !strings.ContainsAny(other, "/\n") && !(regexp.MustCompile("(?s)"+pattern+"$").MatchString("/w/"+other) && regexp.MustCompile("(?s)"+pattern+"$").MatchString(byBytes("/w/"+other))) {
				t.Fatalf("%q is %q on such a volume, and isn't matched by %s", other, name, pattern)
			}
		}
	})
}

// respell draws another spelling of a name.
func respell(t *rapid.T, name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		options := []string{name[i : i+1], strings.ToUpper(name[i : i+1]), strings.ToLower(name[i : i+1])}
		used := map[string]int{}
		for _, f := range folded {
			if strings.HasPrefix(strings.ToLower(name[i:]), f.ascii) {
				for _, a := range f.also {
					options = append(options, a)
					used[a] = len(f.ascii)
				}
			}
		}
		slices.Sort(options)
		o := rapid.SampledFrom(options).Draw(t, "spelling")
		b.WriteString(o)
		i += max(1, used[o])
	}
	return b.String()
}
