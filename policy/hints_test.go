package policy_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/policy"
)

// TestHintsAreTaken: what a hint says to write, in the place of what it is
// about, is something that the parser takes.
func TestHintsAreTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "base.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	parsers := map[string]func(text string) error{
		"policy": func(text string) error {
			file := filepath.Join(dir, "p.json")
			if !strings.Contains(text, "extends") {
				_, err := policy.Parse([]byte(text), file)
				return err
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := policy.Load(file)
			return err
		},
		"needs":  func(text string) error { _, err := policy.ParseNeeds([]byte(text), "n.json"); return err },
		"config": func(text string) error { _, err := policy.ParseConfig([]byte(text), "c.json"); return err },
	}
	suggested := 0
	for parser, places := range hintPlaces {
		for _, place := range places {
			for _, slip := range slips {
				suggested += takesHints(t, parsers[parser], place, slip)
			}
		}
	}
	if suggested < 100 {
		t.Errorf("%d suggestions were tried", suggested)
	}
}

// takesHints reads a document with a slip at a place, and then with each
// value that the hints name there, and counts those.
func takesHints(t *testing.T, parse func(string) error, place, slip string) (suggested int) {
	t.Helper()
	text := strings.Replace(place, "@", slip, 1)
	errs, ok := errors.AsType[policy.ParseErrors](parse(text))
	if !ok {
		return 0
	}
	for _, value := range suggestions(errs[0].Hint) {
		suggested++
		if err := parse(strings.Replace(place, "@", value, 1)); err != nil {
			t.Errorf("%s: %v\nthe hint's %s is refused: %v", text, errs, value, err)
		}
	}
	return suggested
}

// suggestions are the JSON values that a hint says to write.
func suggestions(hint string) (values []string) {
	rest, ok := strings.CutPrefix(hint, "write ")
	if !ok {
		return nil
	}
	for {
		at := strings.IndexAny(rest, `"[{`)
		if at < 0 {
			return values
		}
		d := json.NewDecoder(strings.NewReader(rest[at:]))
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return append(values, rest[at:]) // nothing takes it
		}
		if !strings.HasSuffix(rest[:at], `without `) { // what it isn't to hold
			values = append(values, string(value))
		}
		rest = rest[at+int(d.InputOffset()):]
	}
}

// hintPlaces are the places where people slip, for each kind of document.
var hintPlaces = map[string][]string{
	"policy": {
		`{"extends": [@]}`, `{"tier": @}`, `{"write": [@]}`, `{"write": @}`, `{"write": [{"path": @}]}`, `{"read": {"deny": [@]}}`,
		`{"read": {"deny": [{"path": @}]}}`, `{"read": {"base": @}}`, `{"guard_workspace": @}`, `{"guard_workspace": {"except": [@]}}`, `{"hard_links": @}`,
		`{"hard_links": {"allow_from": @}}`, `{"network": {"allow": [@]}}`, `{"network": {"allow": @}}`, `{"network": {"allow": [{"host": @}]}}`, `{"network": {"deny": [@]}}`,
		`{"network": {"mode": @}}`, `{"network": {"host_ports": [@]}}`, `{"network": {"expose": [@]}}`, `{"network": {"expose": @}}`, `{"network": {"upstream": @}}`,
		`{"network": {"budget": {"bytes_up": @}}}`, `{"sockets": [@]}`, `{"unix_sockets": @}`, `{"env": {"set": {"A": @}}}`, `{"env": {"drop": [@]}}`, `{"env": {"secrets": @}}`,
		`{"limits": {"cpus": @}}`, `{"limits": {"memory": @}}`, `{"limits": {"pids": @}}`, `{"limits": {"timeout": @}}`, `{"limits": {"idle_timeout": @}}`,
		`{"require": [@]}`, `{"require": @}`, `{"container": {"runtime": @}}`, `{"container": {"image": @}}`,
	},
	"needs":  {`{"write": [@]}`, `{"write": @}`, `{"hosts": [@]}`, `{"sockets": [@]}`},
	"config": {`{"state": @}`, `{"engine": @}`, `{"defaults": {"timeout": @}}`, `{"ceilings": {"memory": @}}`},
}

var slips = []string{
	`30`, `1.5`, `0`, `-1`, `999999999`, `1e9`, `true`, `null`, `[]`, `{}`, `{"workspace": null}`,
	`"30"`, `"1.5"`, `"0"`, `"4GiB"`, `"2 G"`, `"src"`, `"../x"`, `"a/../b"`, `".."`, `"."`, `"./../../x"`, `"$HOME/x"`, `"~root/x"`, `"/w/*"`, `"[x]"`,
	`"a\"b"`, `"é x"`, `"{home"`, `"{here}/x"`, `"allow"`, `"yes"`, `"go"`, `"preset:goo"`, `"base.json"`, `"A=B"`, `"/etc"`, `".vscode/"`,
	`"https://a.example/x"`, `"https://u:p@a.example"`, `"ssh://git@a.example:22/x"`, `"http://*.a.example"`, `"ftp://[::1]/"`, `"a.*.example"`, `"*."`, `"127.1"`, `"0x7f.1"`,
	`"10.1.2.3/8"`, `"10.1.2.3/8:80"`, `"[fe80::1]/10:80"`, `"fe80::1/0:80"`, `"a.example:http"`, `"landlock>4"`, `"Netns"`, `"3000:"`,
}
