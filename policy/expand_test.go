package policy_test

import (
	"errors"
	"testing"

	"pinfold/policy"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	vars := policy.Vars{Workspace: "/w", Run: "/r", Toolbelt: "/t/s.sock", Home: "/home/u"}
	tests := map[string]string{
		"/a/b/":            "/a/b",
		"//a///b":          "/a/b",
		"/":                "/",
		"/a/./b":           "/a/b",
		"/a/...":           "/a/...",
		"/a/..b":           "/a/..b",
		"~":                "/home/u",
		"~/":               "/home/u",
		"~/.cache":         "/home/u/.cache",
		"{home}/.cache":    "/home/u/.cache",
		"{workspace}":      "/w",
		"{workspace}/":     "/w",
		"{workspace}/a b":  "/w/a b",
		"{run}/x":          "/r/x",
		"{toolbelt}":       "/t/s.sock",
		"./x":              "/etc/p/x",
		"./":               "/etc/p",
		"./../x":           "/etc/x",
		"./../../../x/y":   "/x/y",
		"./..":             "/etc",
		"/a\nb/☃":          "/a\nb/☃",
		"/a/~/b":           "/a/~/b",
		"/a/$HOME":         "/a/$HOME",
		"{workspace}/../x": "",
		"/a/../b":          "",
		"/..":              "",
		"./a/../b":         "",
		"./../a/..":        "",
		"~/..":             "",
		"~root/x":          "",
		"~x":               "",
		"a/b":              "",
		".":                "",
		"..":               "",
		"../x":             "",
		".x":               "",
		"":                 "",
		"$HOME/x":          "",
		"{workspaces}":     "",
		"{}":               "",
		"{workspace":       "",
		"{workspace}x":     "",
		"{workspace}{run}": "",
		"/a/*":             "",
		"/a/?":             "",
		"/a/[b]":           "",
		"/a/{b,c}":         "",
		"/{run}":           "",
		"*":                "",
		"/a\x00b":          "",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := policy.Expand(policy.PathRule{Text: text, Base: "/etc/p"}, vars)
			if got != want || (err == nil) != (want != "") {
				t.Errorf("Expand(%q) = %q, %v; want %q", text, got, err, want)
			}
		})
	}
}

func TestExpandLiteral(t *testing.T) {
	t.Parallel()
	vars := policy.Vars{Workspace: "/w", Home: "/home/u"}
	tests := map[string]string{
		"/w/[x] *?{}": "/w/[x] *?{}",
		"/{home}/~/":  "/{home}/~",
		"~/x":         "",
		"{workspace}": "",
		"./x":         "",
		"/a/../b":     "",
		"/a\x00":      "",
		"":            "",
	}
	for text, want := range tests {
		got, err := policy.Expand(policy.PathRule{Text: text, Literal: true, Base: "/etc/p"}, vars)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Expand(literal %q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestExpandNamesWhatIsUnset(t *testing.T) {
	t.Parallel()
	tests := map[string]string{"{toolbelt}": "{toolbelt}", "~/x": "~", "{home}": "{home}", "{run}/x": "{run}", "{workspace}": "{workspace}", "./x": "./"}
	for text, name := range tests {
		_, err := policy.Expand(policy.PathRule{Text: text, Optional: true}, policy.Vars{})
		unset, ok := errors.AsType[*policy.PlaceholderError](err)
		if !ok || unset.Name != name {
			t.Errorf("Expand(%q) = %v, want a PlaceholderError of %q", text, err, name)
		}
	}
	if got, err := policy.Expand(policy.PathRule{Text: "~/x"}, policy.Vars{Home: "relative"}); err == nil {
		t.Errorf("a relative home gives %q", got)
	}
}
