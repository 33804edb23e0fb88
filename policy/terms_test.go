package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

// TestTerms: everything that a network grant says is in its terms or its
// hosts, and a password isn't.
func TestTerms(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]string{
		`{"allow": ["a.example"]}`:                                                        "",
		`{"allow": ["a.example"], "verify_tls_name": true}`:                               "verify_tls_name true",
		`{"allow": ["a.example"], "verify_tls_name": false}`:                              "verify_tls_name false",
		`{"allow": [{"host": "a.example:443", "tls": false}]}`:                            "allow a.example:443 tls false",
		`{"allow": [{"host": "a.example", "budget": {"connections": 2}}]}`:                "allow a.example budget connections 2",
		`{"host_ports": [80, 5432]}`:                                                      "host_ports 80\nhost_ports 5432",
		`{"expose": ["3000", "192.0.2.1:8080:80"]}`:                                       "expose 3000\nexpose 192.0.2.1:8080:80",
		`{"allow": ["a"], "budget": {"bytes_up": "1k", "connections": 3, "hosts":2}}`:     "budget bytes_up 1024\nbudget connections 3\nbudget hosts 2",
		`{"allow": ["a"], "upstream": "env"}`:                                             "upstream env",
		`{"allow": ["a"], "upstream": "env:PARENT"}`:                                      "upstream env:PARENT",
		`{"allow": ["a"], "upstream": "http://parent.example:3128"}`:                      "upstream http://parent.example:3128",
		`{"allow": ["a"], "upstream": "http://a.example/?no_proxy=b.example,10.0.0.0/8"}`: "upstream http://a.example no_proxy b.example,10.0.0.0/8",
		`{"allow": ["a"], "upstream": "http://a.example?no_proxy="}`:                      "upstream http://a.example",
	} {
		p, err := policy.Parse([]byte(`{"network": `+document+`}`), "p.json")
		if err != nil {
			t.Errorf("%s: %v", document, err)
			continue
		}
		if diff := cmp.Diff(want, strings.Join(p.Network.Terms(), "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", document, diff)
		}
	}
	// A document may hold no password; a program could.
	n := policy.Network{Upstream: "http://ann:hunter2@parent.example:3128/?no_proxy=b.example"}
	if got := n.Terms(); len(got) != 1 || got[0] != "upstream http://parent.example:3128 no_proxy b.example" {
		t.Errorf("got %q", got)
	}
}
