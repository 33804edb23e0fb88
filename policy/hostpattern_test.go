package policy_test

import (
	"errors"
	"net/netip"
	"regexp"
	"testing"

	"pinfold/policy"
)

func mustHost(t testing.TB, text string) policy.HostPattern {
	t.Helper()
	p, err := policy.ParseDenyPattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseHostPattern(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // text: canonical
		"github.com":                 "github.com",
		"GitHub.com.:443":            "github.com:443",
		"*.githubusercontent.com":    "*.githubusercontent.com",
		"*.BÜCHER.example:8443":      "*.xn--bcher-kva.example:8443",
		"*.internal":                 "*.internal",
		"10.1.2.3":                   "10.1.2.3",
		"10.1.2.3:22":                "10.1.2.3:22",
		"127.0.0.1:8099":             "127.0.0.1:8099",
		"10.1.0.0/16":                "10.1.0.0/16",
		"10.1.0.0/16:5432":           "10.1.0.0/16:5432",
		"2001:db8::1":                "2001:db8::1",
		"[2001:db8::1]":              "2001:db8::1",
		"[2001:DB8::1]:443":          "[2001:db8::1]:443",
		"2001:db8::1:443":            "2001:db8::1:443",
		"2001:db8::/32":              "2001:db8::/32",
		"2001:db8::/32:443":          "2001:db8::/32:443",
		"[2001:db8::]/32:443":        "2001:db8::/32:443",
		"[2001:db8::/32]:443":        "2001:db8::/32:443",
		"::ffff:10.0.0.1":            "10.0.0.1",
		"::ffff:10.0.0.0/104":        "10.0.0.0/8",
		"10.0.0.1/32":                "10.0.0.1",
		"localhost:5432":             "localhost:5432",
		"_srv.my_host.example":       "_srv.my_host.example",
		"203.0.113.7:1":              "203.0.113.7:1",
		"packages.example.org:65535": "packages.example.org:65535",
		"*.s3.eu-west-1.example.com": "*.s3.eu-west-1.example.com",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			p, err := policy.ParseHostPattern(in)
			if err != nil {
				t.Fatal(err)
			}
			if p.String() != want || p.Text != in {
				t.Errorf("ParseHostPattern(%q) = %q (text %q), want %q", in, p, p.Text, want)
			}
			again, err := policy.ParseHostPattern(p.String())
			again.Text = p.Text
			if err != nil || again != p {
				t.Errorf("ParseHostPattern(%q) = %+v, %v; want %+v", p, again, err, p)
			}
		})
	}
}

func TestParseHostPatternRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // text: hint, where there is one
		"":                           "",
		"*":                          "list the hosts that are meant",
		"*:443":                      "list the hosts that are meant",
		"*.":                         `write "*.example.com"`,
		"*.com":                      "list the hosts that are meant",
		"*.co.uk":                    "list the hosts that are meant",
		"*.CO.UK.:443":               "list the hosts that are meant",
		"0.0.0.0/0":                  "list the hosts that are meant",
		"::/0:443":                   "list the hosts that are meant",
		"*github.com":                `write "*.example.com", or list the names`,
		"a.*.com":                    `write "*.example.com", or list the names`,
		"*.*.com":                    `write "*.example.com"`,
		"**.github.com":              `write "*.example.com", or list the names`,
		"*.127.0.0.1":                `write "*.example.com"`,
		"*.[::1]":                    `write "*.example.com"`,
		"https://github.com":         `write "github.com:443"`,
		"https://github.com/a/b":     `write "github.com:443"`,
		"http://127.0.0.1:80/":       "write the host alone, with or without its port",
		"gopher://x":                 `write "x"`,
		"user@github.com":            "",
		"github.com/path":            "",
		"github.com:0":               "",
		"github.com:":                "",
		"github.com:443:443":         "",
		"github.com:65536":           "",
		"github.com:+443":            "",
		"github.com:0443":            "",
		"github.com:https":           "",
		"127.1":                      `write "127.0.0.1"`,
		"0177.0.0.1":                 `write "127.0.0.1"`,
		"2130706433:80":              `write "127.0.0.1"`,
		"127.0.0.1.":                 `write "127.0.0.1"`,
		"10.1.2.3/16":                `write "10.1.0.0/16", or "10.1.2.3" for the address alone`,
		"10.1.2.3/16:80":             `write "10.1.0.0/16:80", or "10.1.2.3:80" for the address alone`,
		"[2001:db8::1/32]:443":       `write "2001:db8::/32:443", or "[2001:db8::1]:443" for the address alone`,
		"10.0.0.0/0":                 `write the length that is meant, or "10.0.0.0" for the address alone`,
		"2001:db8::/0:443":           `write the length that is meant, or "[2001:db8::]:443" for the address alone`,
		"10.1/16":                    "",
		"10.1.0.0/33":                "",
		"10.1.0.0/":                  "",
		"10.1.0.0/016":               "",
		"10.1.0.0/16:0":              "",
		"::ffff:0:0/90":              "",
		"fe80::1%eth0":               "",
		"[fe80::/10%1]":              "",
		"[::1]443":                   "",
		"[::1]:":                     "",
		"[127.0.0.1]:80":             "",
		"github.com ":                "",
		"git\x00hub.com":             "",
		"a b":                        "",
		"github.com,gist.github.com": "",
	}
	for in, hint := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			p, err := policy.ParseHostPattern(in)
			host, ok := errors.AsType[*policy.HostError](err)
			if !ok {
				t.Fatalf("ParseHostPattern(%q) = %+v, %v; want a HostError", in, p, err)
			}
			if host.Text != in || host.Hint != hint {
				t.Errorf("error of %q has text %q, hint %q; want hint %q", in, host.Text, host.Hint, hint)
			}
			for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(host.Hint, -1) {
				if _, err := policy.ParseHostPattern(m[1]); err != nil {
					t.Errorf("the hint of %q is refused itself: %v", in, err)
				}
			}
		})
	}
}

func TestParseDenyPatternTakesWhatIsTooWideToAllow(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"*", "*:25", "*.com", "*.co.uk", "0.0.0.0/0", "::/0:80"} {
		if p := mustHost(t, in); p.String() != in {
			t.Errorf("ParseDenyPattern(%q) = %q", in, p)
		}
	}
}

func TestHostPatternMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, host string
		port          uint16
		want          bool
	}{
		{"github.com", "github.com", 443, true},
		{"github.com", "GITHUB.com.", 80, true},
		{"github.com", "gist.github.com", 443, false},
		{"github.com", "github.com.evil.com", 443, false},
		{"github.com:443", "github.com", 80, false},
		{"github.com:443", "github.com", 443, true},
		{"*.github.com", "gist.github.com", 443, true},
		{"*.github.com", "a.b.github.com", 443, true},
		{"*.github.com", "github.com", 443, false},
		{"*.github.com", ".github.com", 443, false},
		{"*.github.com", "evilgithub.com", 443, false},
		{"*.github.com:443", "gist.github.com", 22, false},
		{"*", "anything.example", 1, true},
		{"*", "127.0.0.1", 1, true},
		{"*", "::1", 1, true},
		{"*:25", "mail.example", 25, true},
		{"*:25", "mail.example", 26, false},
		{"*", "a\x00b", 1, false},
		{"*", "", 1, false},
		{"127.0.0.1:80", "127.1", 80, true},
		{"127.0.0.1:80", "2130706433", 80, true},
		{"127.0.0.1", "[::ffff:127.0.0.1]", 80, true},
		{"127.0.0.1", "::127.0.0.1", 80, false},
		{"127.0.0.1", "localhost", 80, false},
		{"localhost", "127.0.0.1", 80, false},
		{"10.1.0.0/16", "10.1.255.255", 80, true},
		{"10.1.0.0/16", "10.2.0.0", 80, false},
		{"10.1.0.0/16:5432", "10.1.0.1", 80, false},
		{"0.0.0.0/0", "::ffff:1.2.3.4", 80, true},
		{"0.0.0.0/0", "::1", 80, false},
		{"::/0", "1.2.3.4", 80, false},
		{"2001:db8::/32", "[2001:db8:1::1]", 80, true},
		{"bücher.example", "xn--bcher-kva.example", 80, true},
	}
	for _, tt := range tests {
		if got := mustHost(t, tt.pattern).Matches(tt.host, tt.port); got != tt.want {
			t.Errorf("%q.Matches(%q, %d) = %v, want %v", tt.pattern, tt.host, tt.port, got, tt.want)
		}
	}
}

func TestHostPatternMatchesAddr(t *testing.T) {
	t.Parallel()
	link := mustHost(t, "fe80::/10")
	if !link.MatchesAddr(netip.MustParseAddr("fe80::1%eth0"), 80) {
		t.Error("a zone id hides an address from its prefix")
	}
	if link.MatchesAddr(netip.Addr{}, 80) || mustHost(t, "*").MatchesAddr(netip.Addr{}, 80) {
		t.Error("the zero address matches")
	}
	if (policy.HostPattern{}).MatchesAddr(netip.IPv4Unspecified(), 80) || (policy.HostPattern{}).Matches("a", 80) {
		t.Error("the zero pattern matches")
	}
}

func TestHostPatternCovers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		p, other        string
		covers, overlap bool
	}{
		{"github.com", "github.com", true, true},
		{"github.com", "github.com:443", true, true},
		{"github.com:443", "github.com", false, true},
		{"github.com:443", "github.com:22", false, false},
		{"*.github.com", "gist.github.com:443", true, true},
		{"*.github.com", "*.github.com", true, true},
		{"*.github.com", "*.api.github.com", true, true},
		{"*.api.github.com", "*.github.com", false, true},
		{"*.github.com", "github.com", false, false},
		{"github.com", "*.github.com", false, false},
		{"*.github.com:443", "*.github.com", false, true},
		{"*", "*.github.com", true, true},
		{"*", "10.0.0.0/8:80", true, true},
		{"*:80", "10.0.0.0/8:80", true, true},
		{"*", "*", true, true},
		{"*.github.com", "*", false, true},
		{"10.0.0.0/8", "10.1.0.0/16:80", true, true},
		{"10.1.0.0/16", "10.0.0.0/8", false, true},
		{"10.1.0.0/16", "10.1.2.3", true, true},
		{"10.1.0.0/16", "github.com", false, false},
		{"github.com", "10.1.0.0/16", false, false},
		{"0.0.0.0/0", "::1", false, false},
		{"::/0", "1.2.3.4", false, false},
	}
	for _, tt := range tests {
		p, other := mustHost(t, tt.p), mustHost(t, tt.other)
		if got := p.Covers(other); got != tt.covers {
			t.Errorf("%q.Covers(%q) = %v, want %v", tt.p, tt.other, got, tt.covers)
		}
		if got := p.Overlaps(other); got != tt.overlap || other.Overlaps(p) != got {
			t.Errorf("%q.Overlaps(%q) = %v, want %v both ways", tt.p, tt.other, got, tt.overlap)
		}
	}
	zero := policy.HostPattern{}
	if zero.Covers(zero) || mustHost(t, "*").Covers(zero) || zero.Covers(mustHost(t, "a")) || zero.Overlaps(zero) {
		t.Error("the zero pattern covers or is covered")
	}
}

func TestNetworkGrants(t *testing.T) {
	t.Parallel()
	n := policy.Network{
		Allow: []policy.HostPattern{mustHost(t, "*.github.com"), mustHost(t, "10.0.0.0/8:5432")},
		Deny:  []policy.HostPattern{mustHost(t, "gist.github.com")},
	}
	tests := map[string]string{ // need: the rule that decides, ! in front of a deny
		"api.github.com:443":    "*.github.com",
		"gist.github.com:443":   "!gist.github.com",
		"*.github.com":          "!gist.github.com",
		"*.api.github.com":      "*.github.com",
		"10.1.2.3:5432":         "10.0.0.0/8:5432",
		"10.1.2.3":              "",
		"github.com":            "",
		"*.gist.github.com:443": "*.github.com",
	}
	for need, want := range tests {
		rule, ok := n.Grants(mustHost(t, need))
		got := ""
		if rule != nil {
			got = rule.Text
		}
		if rule != nil && !ok {
			got = "!" + got
		}
		if got != want || ok != (want != "" && want[0] != '!') {
			t.Errorf("Grants(%q) = %q, %v; want %q", need, got, ok, want)
		}
	}
}

func FuzzHostPattern(f *testing.F) {
	for _, s := range []string{"github.com:443", "*.a.example", "10.0.0.0/8:1", "[::1]:2", "::/0", "*", "https://x", "127.1"} {
		f.Add(s, "github.com", uint16(443))
	}
	f.Fuzz(func(t *testing.T, text, host string, port uint16) {
		p, err := policy.ParseDenyPattern(text)
		if err != nil {
			if _, err := policy.ParseHostPattern(text); err == nil {
				t.Fatalf("%q may be allowed but not denied", text)
			}
			return
		}
		if !p.Covers(p) || !p.Overlaps(p) || !mustHost(t, "*").Covers(p) {
			t.Fatalf("%q doesn't cover itself", text)
		}
		again, err := policy.ParseDenyPattern(p.String())
		again.Text = p.Text
		if err != nil || again != p {
			t.Fatalf("%q is %q, which parses as %+v, %v", text, p, again, err)
		}
		one, err := policy.ParseDenyPattern(host)
		if err != nil || one.Wildcard || port == 0 || one.Prefix.IsValid() && !one.Prefix.IsSingleIP() {
			return
		}
		one.Port = port
		if matches := p.Matches(host, port); one.Name != "" && matches != p.Covers(one) {
			t.Fatalf("%q matches %q: %v, but covers it: %v", p, host, matches, !matches)
		}
	})
}
