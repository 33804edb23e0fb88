package bwrap_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold/bwrap"
)

// BenchmarkLaunch is a launch of true from start to end, beside bubblewrap by
// hand with the same mounts. The program's own start isn't in it.
func BenchmarkLaunch(b *testing.B) {
	l := realLaunch(b, bwrap.Input{Argv: []string{"/bin/true"}})
	b.Run("by hand", func(b *testing.B) {
		for b.Loop() {
			byHand(b, l)
		}
	})
	b.Run("supervised", func(b *testing.B) {
		for b.Loop() {
			p, err := bwrap.Start(b.Context(), l, bwrap.StartOptions{})
			must(b, err)
			if e, err := p.Wait(); err != nil || e.Code != 0 {
				b.Fatal(e, err)
			}
		}
	})
}

func byHand(b *testing.B, l *bwrap.Launch) {
	b.Helper()
	args := slices.Clone(l.Args)
	var files []*os.File
	for i, d := range l.Data {
		content := d.Content
		if d.Name == bwrap.DataStub {
			content = nil // nobody needs it by hand
		}
		if !slices.Contains(args, "{fd:"+d.Name+"}") {
			continue
		}
		files = append(files, fileOf(b, content))
		args[slices.Index(args, "{fd:"+d.Name+"}")] = strconv.Itoa(3 + i)
	}
	files = append(files, fileOf(b, []byte(strings.Join(args, "\x00")+"\x00")))
	cmd := exec.CommandContext(b.Context(), l.Plan.Tool.Path, "--args", strconv.Itoa(2+len(files)), "--", "/bin/true")
	cmd.Env = []string{}
	cmd.ExtraFiles = files
	must(b, cmd.Run())
	for _, f := range files {
		f.Close()
	}
}
