package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"pinfold/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func compileSchema(t testing.TB, text func() ([]byte, error)) *jsonschema.Schema {
	t.Helper()
	data, err := text()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaGolden(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]func() ([]byte, error){
		"testdata/policy.schema.json": policy.Schema,
		"testdata/needs.schema.json":  policy.NeedsSchema,
		"testdata/config.schema.json": policy.ConfigSchema,
	} {
		got, err := text()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// fataler is a test, a fuzz target or a rapid check.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// verdicts are what parser and schema say of a document. excused: everything
// that the parser found is beyond what a schema can say.
func verdicts(t fataler, s *jsonschema.Schema, parse func([]byte) error, text []byte) (parser, schema, excused error) {
	t.Helper()
	parser = parse(text)
	plain, err := hujson.Standardize(append(text[:len(text):len(text)], '\n'))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	schema = s.Validate(value)
	errs, _ := errors.AsType[policy.ParseErrors](parser)
	for _, e := range errs {
		if !policy.BeyondSchema(e) {
			return parser, schema, nil
		}
	}
	return parser, schema, parser
}

func checkVerdicts(t fataler, s *jsonschema.Schema, parse func([]byte) error, text []byte) {
	t.Helper()
	parser, schema, excused := verdicts(t, s, parse, text)
	if (parser == nil) != (schema == nil) && excused == nil {
		t.Fatalf("%s\nparser: %v\nschema: %v", text, parser, schema)
	}
}

func parsePolicy(text []byte) error {
	_, err := policy.Parse(text, "/etc/pinfold/p.json")
	return err
}

// wholes are documents that say what no field alone can.
var wholes = []string{
	`{}`, `[]`, `null`, `1`, `"x"`, `{"x": 1}`, `{"version": 1.0}`, `{"version": 10e-1}`, `{"version": 2}`,
	`{"container": {"build": {}}}`, `{"container": {"build": {"base": "a"}}}`, `{"container": {"build": {"base": "a", "install": []}}}`,
	`{"container": {"build": {"dockerfile": "/D"}}}`, `{"container": {"build": {"dockerfile": "/D", "base": "a"}}}`,
	`{"container": {"build": {"dockerfile": "/D", "dockerfile_inline": "FROM x"}}}`,
	`{"container": {"build": {"dockerfile_inline": "FROM x"}}}`, `{"container": {"build": {"dockerfile_inline": ""}}}`,
	`{"container": {"mounts": [{"source": "?~/x", "target": "/a"}]}}`, `{"container": {"mounts": [{"source": "/x"}]}}`,
	`{"write": [{"path": "/a"}]}`, `{"write": [{"path": "/[a]"}]}`, `{"write": [{"path": "/[a]", "literal": true}]}`,
	`{"write": [{"path": "~/a", "literal": true}]}`, `{"write": [{"path": "~/a", "literal": false}]}`, `{"write": [{"literal": true}]}`,
	`{"write": [{"path": 1}]}`, `{"write": [{"path": 1, "literal": true}]}`, `{"write": [{"path": "/a", "as": "empty"}]}`,
	`{"read": {"deny": [{"path": "/a", "as": "empty"}, {"path": "?/a"}]}}`, `{"read": {"deny": [{"path": "/[", "as": "error", "literal": true}]}}`,
	`{"network": {"allow": [{"host": "a.example", "tls": false}]}}`, `{"network": {"allow": [{"tls": false}]}}`,
	`{"network": {"allow": [{"host": "a.example", "budget": {}}]}}`, `{"network": {"allow": [{"host": "a.example", "budget": 5}]}}`,
	`{"network": {"allow": [{"host": "a.example", "budget": {"bytes": 5}}]}}`, `{"network": {"deny": [{"host": "a.example", "budget": {}}]}}`,
	`{"network": {"deny": [{"host": "a.example"}]}}`, `{"guard_workspace": {}}`, `{"hard_links": {}}`, `{"hard_links": {"allow_from": []}}`,
	`{"env": {"set": {"": "x"}}}`, `{"env": {"set": {"A": "x", "b.c": ""}}}`, `{"env": {"set": {"A=": "x"}}}`, `{"env": {"set": {"A*": "x"}}}`,
}

func TestSchemaAgreesWithParser(t *testing.T) {
	t.Parallel()
	s := compileSchema(t, policy.Schema)
	full, err := os.ReadFile("testdata/full.jsonc")
	if err != nil {
		t.Fatal(err)
	}
	checkVerdicts(t, s, parsePolicy, full)
	for _, text := range wholes {
		checkVerdicts(t, s, parsePolicy, []byte(text))
	}
	good, bad := 0, 0
	for _, format := range valuePlaces {
		for _, value := range values {
			text := strings.Replace(format, "$", value, 1)
			checkVerdicts(t, s, parsePolicy, []byte(text))
			if parsePolicy([]byte(text)) == nil {
				good++
			} else {
				bad++
			}
		}
	}
	if good < 300 || bad < 300 {
		t.Errorf("the corpus has %d good and %d bad documents, too few of one to prove anything", good, bad)
	}
}

// valuePlaces are all places of a document; each of values is tried in each.
var valuePlaces = []string{
	`{"version": $}`, `{"extends": [$]}`, `{"tier": $}`, `{"write": [$]}`, `{"write": $}`, `{"read": $}`, `{"read": {"base": $}}`,
	`{"read": {"deny": [$]}}`, `{"read": {"allow": [$]}}`, `{"read_only": [$]}`, `{"guard_workspace": $}`,
	`{"guard_workspace": {"except": [$]}}`, `{"hard_links": $}`, `{"hard_links": {"allow_from": [$]}}`, `{"network": {"allow": [$]}}`,
	`{"network": {"allow": [{"host": $}]}}`, `{"network": {"deny": [$]}}`, `{"network": {"mode": $}}`, `{"network": {"verify_tls_name": $}}`,
	`{"network": {"host_ports": [$]}}`, `{"network": {"expose": [$]}}`, `{"network": {"budget": {"bytes_up": $}}}`,
	`{"network": {"budget": {"connections": $}}}`, `{"network": {"budget": {"hosts": $}}}`,
	`{"network": {"allow": [{"host": "a.example", "budget": {"bytes_up": $}}]}}`, `{"network": {"allow": [{"host": "a.example", "budget": {"connections": $}}]}}`,
	`{"network": {"allow": [{"host": "a.example", "budget": {"hosts": $}}]}}`, `{"network": {"upstream": $}}`,
	`{"sockets": [$]}`, `{"unix_sockets": $}`, `{"env": {"set": {"A": $}}}`, `{"env": {"set": $}}`, `{"env": {"drop": [$]}}`,
	`{"env": {"secrets": [$]}}`, `{"limits": {"cpus": $}}`, `{"limits": {"memory": $}}`, `{"limits": {"pids": $}}`,
	`{"limits": {"files": $}}`, `{"limits": {"file_size": $}}`, `{"limits": {"tmp": $}}`, `{"limits": {"timeout": $}}`,
	`{"limits": {"idle_timeout": $}}`, `{"require": [$]}`, `{"container": {"runtime": $}}`, `{"container": {"context": $}}`,
	`{"container": {"image": $}}`, `{"container": {"build": {"base": $, "install": ["x"]}}}`,
	`{"container": {"build": {"base": "x", "install": [$]}}}`, `{"container": {"build": {"dockerfile": $}}}`,
	`{"container": {"build": {"dockerfile_inline": $}}}`, `{"container": {"mounts": [{"source": $, "target": "/t"}]}}`,
	`{"container": {"mounts": [{"source": "/s", "target": $}]}}`, `{"container": {"mounts": [{"source": "/s", "target": "/t", "mode": $}]}}`,
	`{"write": [{"path": $}]}`, `{"write": [{"path": $, "literal": true}]}`, `{"write": [{"path": "/a", "literal": $}]}`,
}

var values = []string{
	`null`, `true`, `false`, `{}`, `[]`, `["x"]`, `{"x": null}`, `{"workspace": null}`,
	`0`, `1`, `-1`, `1.0`, `1.5`, `0.01`, `0.009`, `8192`, `8192.5`, `65535`, `65536`, `4194304`, `4194305`, `1e3`, `1e18`, `1E400`, `9007199254740991`,
	`9007199254740992`, `999999999999999`, `1000000000000000`, `2147483584`, `2147483585`, `12345678901234567890123456789012345678901234567890`,
	`""`, `"/"`, `"//"`, `"/a"`, `"/a/"`, `"/a/b c"`, `"/a/.."`, `"/a/../b"`, `"/.."`, `"/..."`, `"/..a"`, `"/.a"`, `"/."`, `"/./a"`, `"/a\nb"`, `"/ü/☃"`,
	`"/a*"`, `"/a?"`, `"/[a]"`, `"/{a}"`, `"/a\u0000"`, `"?/a"`, `"??/a"`, `"?"`, `"~"`, `"~/"`, `"~/a"`, `"~a"`, `"~/.."`, `"?~/a"`, `"."`, `"./"`, `"./a"`,
	`"./.."`, `"./../"`, `"./../.."`, `"./../../a"`, `"./a/.."`, `"./.../a"`, `"./..a"`, `".."`, `"../a"`, `"a"`, `"a/b"`, `".vscode"`, `".git/config"`, `"{workspace}"`,
	`"{workspace}/"`, `"{workspace}/a"`, `"{workspace}a"`, `"{run}/.."`, `"{home}"`, `"{toolbelt}"`, `"{x}"`, `"{"`, `"$HOME"`, `"/a\ud800"`,
	`"*"`, `"*:25"`, `"*:0"`, `"a.example"`, `"A.Example."`, `"a.example:443"`, `"a.example:65535"`, `"a.example:65536"`, `"a.example:0"`, `"a.example:"`,
	`"*.a.example"`, `"*.a.example:1"`, `"*.com"`, `"*."`, `"*a.example"`, `"a.*.example"`, `"-a.example"`, `"a..example"`, `"bücher.example"`, `"xn--x"`,
	`"10.0.0.0/8"`, `"10.0.0.0/8:80"`, `"10.0.0.1/8"`, `"0.0.0.0/0"`, `"10.0.0.1"`, `"10.0.0.1:80"`, `"127.1"`, `"1.2.3.256"`, `"2001:db8::1"`, `"[2001:db8::1]"`,
	`"[2001:db8::1]:443"`, `"2001:db8::/32"`, `"2001:db8::/32:443"`, `"[2001:db8::]/32:443"`, `"[2001:db8::/32]:443"`, `"fe80::1%eth0"`, `"::"`, `"::/0"`, `"[::"`,
	`"https://a.example"`, `"http://a.example:3128"`, `"http://a.example:3128/"`, `"http://a.example/x"`, `"http://u@a.example"`, `"http://[::1]:80"`, `"http://[::1"`,
	`"http://a.example:0"`, `"http://:80"`, `"http://%zz"`, `"socks5h://a.example:1080"`, `"ftp://a.example"`, `"HTTP://a.example"`, `"http://"`, `"env"`, `"env:X_1"`, `"env:"`, `"env:9"`, `"envX"`, `"file:/p x"`, `"file:p"`, `"file:/p\u0001"`,
	`"http://a.example?no_proxy=b.example,10.0.0.0/8"`, `"http://a.example/?no_proxy="`, `"http://a.example?x=1"`, `"http://a.example?no_proxy=b&x=1"`, `"http://a.example?no_proxy=%zz"`, `"a@b"`,
	`"80"`, `"8080:80"`, `"080"`, `"80:80:80"`, `"127.0.0.1:80"`, `"127.0.0.1:8080:80"`, `"127.1:80"`, `"[::1]:80"`, `"[::1]:80:80"`, `"::1:80"`, `"1.:1"`, `"65536:1"`,
	`"process"`, `"container"`, `"host"`, `"system"`, `"none"`, `"auto"`, `"proxy"`, `"transparent"`, `"listed"`, `"all"`, `"refuse"`, `"error"`, `"empty"`, `"ro"`, `"rw"`,
	`"docker"`, `"podman"`, `"runc"`, `"crun"`, `"Docker"`, `"preset:go"`, `"preset:x"`, `"preset:"`,
	`"1"`, `"0"`, `"01"`, `"1k"`, `"1K"`, `"1kb"`, `"50m"`, `"4g"`, `"4gk"`, `"999999999g"`, `"1000000000g"`, `"999999999999999"`, `"1000000000000000"`, `"-1k"`, `"+1k"`, `"1 k"`, `"k"`,
	`"1s"`, `"0s"`, `"1.5h"`, `"1h30m"`, `"90"`, `"ms"`, `"1ms"`, `"0.5ms"`, `"1us"`, `"1.s"`, `".5s"`, `"9999999h"`, `"1h1h1h1h1h1h1h1h"`, `"1h1h1h1h1h1h1h1h1h"`, `"1234567890s"`, `"1.0000000001s"`, `"-1s"`, `"1d"`,
	`"NAME"`, `"A B"`, `"A="`, `"A*"`, `"A**"`, `"*A"`, `"netns"`, `"landlock>=4"`, `"landlock>=0"`, `"landlock>=04"`, `"landlock>4"`, `"landlock>="`, `"Landlock"`, `"a-b"`, `"9a"`, `">=4"`,
}

// TestSchemaAgreesWithParserOnMutations changes single characters of values
// that are right, where the borders of the patterns run.
func TestSchemaAgreesWithParserOnMutations(t *testing.T) {
	t.Parallel()
	s := compileSchema(t, policy.Schema)
	pieces := []string{
		"/", ".", "..", "~", "?", "*", "[", "]", "{", "}", ":", "a", "Z", "-", "_", "0", "1", "9", "10", "/8", "%", "@", " ", "é", "=", ">=", "k", "s", "h", "{run}", "./", "::", "\n", ",",
	}
	rapid.Check(t, func(rt *rapid.T) {
		place := rapid.SampledFrom(valuePlaces).Draw(rt, "place")
		var value string
		if rapid.Bool().Draw(rt, "from the corpus") {
			if err := json.Unmarshal([]byte(rapid.SampledFrom(values).Draw(rt, "value")), &value); err != nil {
				value = ""
			}
			cut := rapid.IntRange(0, len(value)).Draw(rt, "cut")
			value = strings.ToValidUTF8(value[:cut]+rapid.SampledFrom(pieces).Draw(rt, "piece")+value[cut:], "")
		} else {
			value = strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(rt, "pieces"), "")
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			rt.Fatal(err)
		}
		checkVerdicts(rt, s, parsePolicy, []byte(strings.Replace(place, "$", string(quoted), 1)))
	})
}

// TestSchemaDescribesEveryField: an editor shows the descriptions.
func TestSchemaDescribesEveryField(t *testing.T) {
	t.Parallel()
	for _, text := range []func() ([]byte, error){policy.Schema, policy.NeedsSchema, policy.ConfigSchema} {
		data, err := text()
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		eachProperty(schema, "", func(name string, property map[string]any) {
			if description, _ := property["description"].(string); len(description) < 10 {
				t.Errorf("%s has the description %q", name, description)
			}
		})
	}
}

// eachProperty visits every described member of a schema by its dotted name.
func eachProperty(schema any, at string, visit func(name string, property map[string]any)) {
	switch schema := schema.(type) {
	case []any:
		for _, one := range schema {
			eachProperty(one, at, visit)
		}
	case map[string]any:
		for key, value := range schema {
			properties, ok := value.(map[string]any)
			if key != "properties" || !ok {
				if key == "items" || key == "anyOf" {
					eachProperty(value, at, visit)
				}
				continue
			}
			for name, property := range properties {
				dotted := strings.TrimPrefix(at+"."+name, ".")
				visit(dotted, property.(map[string]any))
				eachProperty(property, dotted, visit)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.jsonc")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range wholes {
		f.Add([]byte(text))
	}
	s := compileSchema(f, policy.Schema)
	f.Fuzz(func(t *testing.T, text []byte) {
		err := parsePolicy(text)
		if _, ok := errors.AsType[policy.ParseErrors](err); err != nil && !ok {
			t.Fatalf("the error is %T", err)
		}
		plain, jsonErr := hujson.Standardize(append(text[:len(text):len(text)], '\n'))
		if jsonErr != nil || !json.Valid(plain) || bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
			return
		}
		if errs, _ := errors.AsType[policy.ParseErrors](err); len(errs) > 0 && errs[0].Field == "" && errs[0].At.Column > 1 {
			return // nested too deeply, or no text
		}
		checkVerdicts(t, s, parsePolicy, text)
	})
}

func FuzzParseYAML(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range []string{"{}", "write: [/a]\n", "a: &x b\n", "? x\n: y", "- - - a", "\"\\x00\": |\n  a\n", "%YAML 1.2\n---\n{}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text, "/etc/pinfold/p.yaml")
		if _, ok := errors.AsType[policy.ParseErrors](err); (err != nil && !ok) || (p == nil) == (err == nil) {
			t.Fatalf("got %v and a %T", p, err)
		}
	})
}
