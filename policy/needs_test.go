package policy_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

func TestParseNeeds(t *testing.T) {
	t.Parallel()
	want := policy.Needs{
		Read: []string{"/r", "~/.gitconfig"}, Write: []string{"{workspace}"}, ReadOnly: []string{"{workspace}/.git/config"},
		Deny: []string{"{home}/x"}, Hosts: []string{"api.example:443", "*.a.example"}, Sockets: []string{"{toolbelt}"},
	}
	for file, text := range map[string]string{
		"n.json": `{"read": ["/r", "~/.gitconfig"], "write": ["{workspace}"], "read_only": ["{workspace}/.git/config"],
			"deny": ["{home}/x"], "hosts": ["api.example:443", "*.a.example"], "sockets": ["{toolbelt}"]} // all`,
		"n.yaml": "read: [/r, ~/.gitconfig]\nwrite: ['{workspace}']\nread_only: ['{workspace}/.git/config']\n" +
			"deny: ['{home}/x']\nhosts: ['api.example:443', '*.a.example']\nsockets: ['{toolbelt}']\n",
	} {
		got, err := policy.ParseNeeds([]byte(text), file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestParseNeedsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		``:                             `n.json: cannot use the document: it is empty; write {} if nothing is meant`,
		`{"reads": []}`:                `n.json:1:2: cannot use reads: there is no such field; did you mean "read"?`,
		`{"read": [], "read": []}`:     `n.json:1:14: cannot use read: it stands there twice, first in line 1`,
		`{"read": "/a"}`:               `n.json:1:10: cannot use read: it is a string and must be a list; write ["/a"]`,
		`{"read": ["./a"]}`:            `n.json:1:11: cannot use read[0]: "./a": it is relative; write the whole path, or start with a placeholder`,
		`{"read": ["?/a"]}`:            `n.json:1:11: cannot use read[0]: "?/a": it holds a pattern character (one of * ? [ ] { }), and patterns are not expanded; name the folder, or write {"path": "/…", "literal": true} if the path really holds it`,
		`{"read": [{"path": "/a"}]}`:   `n.json:1:11: cannot use read[0]: it is an object and must be a string`,
		`{"hosts": ["*"]}`:             `n.json:1:12: cannot use hosts[0]: "*": "*" would allow everything and stands in deny lists only; list the hosts that are meant`,
		`{"hosts": ["http://a.test"]}`: `n.json:1:12: cannot use hosts[0]: "http://a.test": it is a URL; write "a.test:80"`,
	}
	for text, want := range tests {
		got, err := policy.ParseNeeds([]byte(text), "n.json")
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %+v,\n     %v\nwant %s", text, got, err, want)
		}
	}
}

func parseNeeds(text []byte) error {
	_, err := policy.ParseNeeds(text, "n.json")
	return err
}

func parseConfig(text []byte) error {
	_, err := policy.ParseConfig(text, "c.json")
	return err
}

func TestSchemaAgreesWithTheOtherParsers(t *testing.T) {
	t.Parallel()
	needs, config := compileSchema(t, policy.NeedsSchema), compileSchema(t, policy.ConfigSchema)
	for _, value := range values {
		for _, place := range []string{`{"read": [$]}`, `{"write": $}`, `{"hosts": [$]}`, `$`} {
			checkVerdicts(t, needs, parseNeeds, []byte(strings.Replace(place, "$", value, 1)))
		}
		for _, place := range []string{`{"state": $}`, `{"engine": $}`, `{"defaults": {"tmp": $}}`, `{"ceilings": $}`} {
			checkVerdicts(t, config, parseConfig, []byte(strings.Replace(place, "$", value, 1)))
		}
	}
}

func FuzzParseNeeds(f *testing.F) {
	for _, s := range []string{`{}`, `{"read": ["/a"]}`, `{"hosts": ["a:1"], "sockets": ["{toolbelt}"]}`, `{"deny": ["~/x"]} //`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := policy.ParseNeeds(text, "n.json")
		if err != nil {
			if _, ok := errors.AsType[policy.ParseErrors](err); !ok {
				t.Fatalf("the error is %T", err)
			}
			return
		}
		for _, path := range append(append(n.Read, n.Write...), n.Sockets...) {
			_, err := policy.Expand(policy.PathRule{Text: path}, policy.Vars{Workspace: "/w", Run: "/r", Toolbelt: "/t", Home: "/h"})
			if err != nil || bytes.ContainsRune([]byte(path), 0) {
				t.Fatalf("%q parses but: %v", path, err)
			}
		}
	})
}
