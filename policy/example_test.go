package policy_test

import (
	"errors"
	"fmt"

	"pinfold/policy"
)

func ExampleParse() {
	p, err := policy.Parse([]byte(`{
		// Comments and trailing commas are fine.
		"write": ["{workspace}", "?~/.cache/go-build"],
		"network": {"allow": ["modules.example.org:443", "*.githubusercontent.com"]},
	}`), "/etc/pinfold/go.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	vars := policy.Vars{Workspace: "/src/app", Home: "/home/ann"}
	for _, rule := range p.Write {
		path, err := policy.Expand(rule, vars)
		fmt.Println(path, rule.Optional, err)
	}
	fmt.Println(p.Network.Allow[1].Matches("raw.githubusercontent.com", 443))
	// Output:
	// /src/app false <nil>
	// /home/ann/.cache/go-build true <nil>
	// true
}

func ExampleParse_errors() {
	_, err := policy.Parse([]byte("{\n  \"wrte\": [],\n  \"read\": {\"deny\": [\"/a/*\"]}\n}"), "p.json")
	errs, _ := errors.AsType[policy.ParseErrors](err)
	for _, e := range errs {
		fmt.Printf("%v %s\n", e.At, e.Field)
	}
	// Output:
	// p.json:2:3 wrte
	// p.json:3:21 read.deny[0]
}

func ExampleNormalizeHost() {
	for _, host := range []string{"GitHub.com.", "bücher.example", "0x7f.1", "[::ffff:127.0.0.1]", "a\x00b"} {
		name, _, isAddr, err := policy.NormalizeHost(host)
		fmt.Printf("%q %v %v\n", name, isAddr, err)
	}
	// Output:
	// "github.com" false <nil>
	// "xn--bcher-kva.example" false <nil>
	// "127.0.0.1" true <nil>
	// "127.0.0.1" true <nil>
	// "" false cannot use "a\x00b" as a host: it holds the character U+0000
}

func ExampleHostPattern_Covers() {
	grant, _ := policy.ParseHostPattern("*.example.com")
	for _, need := range []string{"api.example.com:443", "*.eu.example.com", "example.com"} {
		p, _ := policy.ParseHostPattern(need)
		fmt.Println(need, grant.Covers(p))
	}
	// Output:
	// api.example.com:443 true
	// *.eu.example.com true
	// example.com false
}
