package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"pinfold/policy"
)

func TestNormalizeHost(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	tests := map[string]string{
		"github.com":              "github.com",
		"GitHub.COM":              "github.com",
		"github.com.":             "github.com",
		"localhost":               "localhost",
		"my_host.internal":        "my_host.internal",
		"r3---sn-abc.example.com": "r3---sn-abc.example.com",
		"bücher.example":          "xn--bcher-kva.example",
		"BÜCHER.example.":         "xn--bcher-kva.example",
		"xn--bcher-kva.example":   "xn--bcher-kva.example",
		"XN--BCHER-KVA.example":   "xn--bcher-kva.example",
		"example。com":             "example.com",
		"git\u00adhub.com":        "github.com",
		"1password.com":           "1password.com",
		"0x7f.example":            "0x7f.example",
		"3.14.example":            "3.14.example",
		"0xgg":                    "0xgg",
		long + ".com":             long + ".com",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			name, addr, isAddr, err := policy.NormalizeHost(in)
			if err != nil || isAddr || name != want {
				t.Errorf("NormalizeHost(%q) = %q, %v, %v, %v; want the name %q", in, name, addr, isAddr, err, want)
			}
		})
	}
}

func TestNormalizeHostReadsEverySpellingOfAnAddress(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"127.0.0.1":                     "127.0.0.1",
		"127.0.0.1.":                    "127.0.0.1",
		"127.1":                         "127.0.0.1",
		"127.0.1":                       "127.0.0.1",
		"0x7f.1":                        "127.0.0.1",
		"0X7F.0x0.0.1":                  "127.0.0.1",
		"2130706433":                    "127.0.0.1",
		"0x7f000001":                    "127.0.0.1",
		"017700000001":                  "127.0.0.1",
		"0177.0.0.1":                    "127.0.0.1",
		"00000177.0.0.01":               "127.0.0.1",
		"127.0x1":                       "127.0.0.1",
		"0":                             "0.0.0.0",
		"00":                            "0.0.0.0",
		"10.65535":                      "10.0.255.255",
		"10.1.65535":                    "10.1.255.255",
		"4294967295":                    "255.255.255.255",
		"169.254.43518":                 "169.254.169.254",
		"\uff11\uff12\uff17\uff0e0.0.1": "127.0.0.1",
		"127\u30020\u30020\u30021":      "127.0.0.1",
		"①②⑦.0.0.1":                     "127.0.0.1",
		"::1":                           "::1",
		"[::1]":                         "::1",
		"[0:0:0:0:0:0:0:1]":             "::1",
		"::ffff:127.0.0.1":              "127.0.0.1",
		"[::FFFF:7f00:1]":               "127.0.0.1",
		"2001:DB8::1":                   "2001:db8::1",
		"[fd00:ec2::254]":               "fd00:ec2::254",
		"::127.0.0.1":                   "::7f00:1",
		"64:ff9b::127.0.0.1":            "64:ff9b::7f00:1",
		"0000:0:0:0:0:0:0:1":            "::1",
		"[2001:db8:0:0:1:0:0:1]":        "2001:db8::1:0:0:1",
		"::ffff:0:0":                    "0.0.0.0",
		"2001:db8:1:1:1:1:1:1":          "2001:db8:1:1:1:1:1:1",
		"[64:ff9b:1::10.0.0.1]":         "64:ff9b:1::a00:1",
		"255.255.255.255":               "255.255.255.255",
		"0xffffffff":                    "255.255.255.255",
		"0xFF.0xfF.0377.255":            "255.255.255.255",
		"0x00000000000000007f.0.1":      "127.0.0.1",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			name, addr, isAddr, err := policy.NormalizeHost(in)
			if err != nil || !isAddr || addr != netip.MustParseAddr(want) || name != want {
				t.Errorf("NormalizeHost(%q) = %q, %v, %v, %v; want the address %s", in, name, addr, isAddr, err, want)
			}
		})
	}
}

func TestNormalizeHostRefuses(t *testing.T) {
	t.Parallel()
	tests := []string{
		"", ".", "..", "a..b", ".a", "a..", "[", "]", "[]", "[github.com]", "[127.0.0.1]", "[::1", "::1]", "[::1].",
		"[[::1]]", "a b", " a", "a\t", "a\x00.com", "github.com\x00.evil.com", "a\n", "a\r\nb", "a\x7f", "a\u0085b",
		"fe80::1%eth0", "[fe80::1%25eth0]", "::1%lo", "a%2ecom", "a/b", "a@b", "a:80", "a,b", "a;b", "a\\b", "*", "*.com", "a*",
		"-a.com", "a-.com", "1.2.3.4.5", "256.0.0.1", "1.2.3.256", "127.0.0.08", "0x", "127.0x", "4294967296", "0x100000000",
		"1.16777216", "foo.1", "foo.0x1", "1..1", "99999999999999999999", "xn--", "xn--a", "xn--google-.com", "xn--zzzzzz--.com",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "ab", strings.Repeat("a", 2000), "\xff.com", "a\u2028b",
		"127.0.0.1:80", "::ffff:999.0.0.1", "1:2:3", "::1::", "%", "ⓐ／b", "a＠b", "a\u3000b", "\"a\"", "'a'", "a+b", "a=b", "12345678901.1",
	}
	for _, in := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			if name, addr, isAddr, err := policy.NormalizeHost(in); err == nil {
				t.Errorf("NormalizeHost(%q) = %q, %v, %v; want an error", in, name, addr, isAddr)
			}
		})
	}
}

func FuzzNormalizeHost(f *testing.F) {
	for _, s := range []string{"github.com", "127.1", "[::1]", "bücher.example", "0x7f.1.", "a\x00b", "①②⑦.1", "fe80::1%1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, addr, isAddr, err := policy.NormalizeHost(text)
		if err != nil {
			return
		}
		again, addr2, isAddr2, err := policy.NormalizeHost(name)
		if err != nil || again != name || addr2 != addr || isAddr2 != isAddr {
			t.Fatalf("NormalizeHost(%q) = %q, but of that it is %q, %v, %v", text, name, again, isAddr2, err)
		}
		if !isAddr && len(name) > 253 || name != strings.ToLower(name) || strings.HasSuffix(name, ".") {
			t.Fatalf("NormalizeHost(%q) = %q is not normal", text, name)
		}
		if _, err := netip.ParseAddr(name); (err == nil) != isAddr {
			t.Fatalf("NormalizeHost(%q) = %q: address taken for a name or the reverse", text, name)
		}
	})
}
