package seatbelt

import (
	"fmt"
	"regexp"
	"testing"

	"pinfold/guard"
	"pinfold/seatbelt/sbpl"
)

// TestManyNames: hundreds of names share few expressions, none of which is
// longer than the compiler takes, and each name is still denied.
func TestManyNames(t *testing.T) {
	t.Parallel()
	v := view{entries: []guard.Entry{entry("/Users/ann", guard.ReadWrite, guard.Dir, "~")}}
	for i := range 300 {
		v.entries = append(v.entries, entry(fmt.Sprintf("/Users/ann/.secrets%03d", i), guard.Deny, guard.Missing, "x"))
		v.watches = append(v.watches, guard.Watch{Path: fmt.Sprintf("/Users/ann/.config/tool%03d/settings.json", i)})
	}
	text, err := profile(v, Options{})
	must(t, err)
	found := regexp.MustCompile(`#"([^"]*)"`).FindAllStringSubmatch(text.Profile, -1)
	if len(found) > 150 {
		t.Errorf("%d expressions", len(found))
	}
	for _, f := range found {
		if len(f[1]) > 1024 || !isASCII(f[1]) {
			t.Errorf("%d bytes: %s", len(f[1]), f[1])
		}
	}
	p, err := sbpl.Parse(text.At(1, "t"))
	must(t, err)
	params := text.Map()
	params["TTY"] = "/dev/null"
	for i := range 300 {
		denied := fmt.Sprintf("/Users/ann/.Secrets%03d", i)
		watched := fmt.Sprintf("/Users/ann/.config/tool%03d", i)
		for path, want := range map[string]bool{
			denied: false, denied + "/x": false, denied + "x": true, watched: false, watched + "/settings.json": false,
			watched + "/settings.JSON/x": false, watched + "/other": true, watched + "0": true,
		} {
			if got := ask(t, p, params, sbpl.Query{Op: "file-write-create", Path: path}); got != want {
				t.Fatalf("%s: got %v", path, got)
			}
		}
		if ask(t, p, params, sbpl.Query{Op: "file-read-data", Path: denied}) {
			t.Fatalf("%s can be read", denied)
		}
	}
}
