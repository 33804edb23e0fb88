package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// A path may hold a comma or a space, and so may a variable's value. The
// library splits at commas unless it is told not to.
func TestFlagValuesAreNeverSplit(t *testing.T) {
	t.Parallel()
	var f launchFlags
	app := &cli.App{Flags: f.flags(), Action: func(*cli.Context) error { return nil }}
	args := []string{"pinfold", "--protect", "/a,b", "--protect= c ", "--policy", "p,q", "--env", "A=1,B=2", "--env", "C=", "--", "--env", "x"}
	if err := app.Run(args); err != nil {
		t.Fatal(err)
	}
	got := [][]string{f.protect, f.envs, {f.policy}}
	want := [][]string{{"/a,b", " c "}, {"A=1,B=2", "C="}, {"p,q"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Should a flag of the library's own kind ever be added, it isn't split
// either.
func TestAppDoesNotSplitSliceFlags(t *testing.T) {
	t.Parallel()
	var got []string
	app := (&program{}).app()
	app.Commands = nil
	app.Flags = []cli.Flag{&cli.StringSliceFlag{Name: "x", KeepSpace: true}}
	app.Action = func(c *cli.Context) error {
		got = c.StringSlice("x")
		return nil
	}
	if err := app.Run([]string{"pinfold", "--x", "a,b", "--x", " c "}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a,b", " c "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFormatIsKnownBeforeTheCommandLineIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"not given":         {[]string{"wrap", "--", "true"}, "text"},
		"apart":             {[]string{"wrap", "--error-format", "json", "--", "true"}, "json"},
		"with =":            {[]string{"wrap", "--error-format=json", "--bogus"}, "json"},
		"one dash":          {[]string{"wrap", "-error-format", "json"}, "json"},
		"text":              {[]string{"wrap", "--error-format", "text"}, "text"},
		"unknown":           {[]string{"wrap", "--error-format", "xml"}, "text"},
		"without a value":   {[]string{"wrap", "--error-format"}, "text"},
		"of the command":    {[]string{"wrap", "--", "x", "--error-format", "json"}, "text"},
		"a value elsewhere": {[]string{"wrap", "error-format=json"}, "text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := formatOf(c.args); got != c.want {
				t.Errorf("got %q, wanted %q", got, c.want)
			}
		})
	}
}
