package seccomp_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/stub/seccomp"
)

var update = flag.Bool("update", false, "write the text of the programs anew")

func TestUnknownProgramIsAnError(t *testing.T) {
	t.Parallel()
	for arch, mode := range map[string]seccomp.Mode{"riscv64": seccomp.Base, "amd64": "none", "": ""} {
		if b, err := seccomp.Program(arch, mode); err == nil {
			t.Errorf("%q, %q: %d bytes and no error", arch, mode, len(b))
		}
		if d, err := seccomp.Digest(arch, mode); err == nil {
			t.Errorf("%q, %q: digest %q and no error", arch, mode, d)
		}
	}
}

func TestDigestsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, arch := range seccomp.Arches() {
		for _, mode := range seccomp.All() {
			d, err := seccomp.Digest(arch, mode)
			if err != nil || len(d) != 64 {
				t.Fatalf("%s, %s: %q, %v", arch, mode, d, err)
			}
			name := seccomp.FileName(arch, mode)
			if other, ok := seen[d]; ok {
				t.Errorf("%s and %s are the same program", name, other)
			}
			seen[d] = name
		}
	}
}

// The text that is reviewed is the text of the program that is loaded.
func TestTextIsTheProgram(t *testing.T) {
	t.Parallel()
	for _, arch := range seccomp.Arches() {
		for _, mode := range seccomp.All() {
			program, err := seccomp.Program(arch, mode)
			if err != nil {
				t.Fatal(err)
			}
			got, err := seccomp.Table(arch, mode, program)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("programs", seccomp.FileName(arch, mode)+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s isn't the program's text (-file +program):\n%.2000s", path, diff)
			}
		}
	}
}

// The committed programs are what the table generates. Another version of
// libseccomp may order instructions otherwise, so only the one that made them
// is asked; CI has it.
func TestProgramsAreGenerated(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "pkg-config", "--modversion", "libseccomp").Output(); err != nil {
		t.Skip("libseccomp's headers are not installed")
	} else if want, got := readVersion(t), strings.TrimSpace(string(out)); want != got {
		t.Skipf("the programs were made by libseccomp %s, here is %s", want, got)
	}
	dir := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "run", "-tags", "libseccomp", "./gen", dir)
	generate.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("cannot generate: %v\n%s", err, out)
	}
	files, err := filepath.Glob("programs/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, path := range files {
		compareFiles(t, path, filepath.Join(dir, filepath.Base(path)))
	}
}

func compareFiles(t *testing.T, committed, generated string) {
	t.Helper()
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(generated)
	if err != nil {
		t.Fatalf("nothing generates %s: %v", committed, err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs from what the table generates: run go generate ./stub/seccomp", committed)
	}
}

func readVersion(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("programs/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(b), "libseccomp "))
}

func TestDisassembleRefuses(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"half":           {6, 0, 0, 0},
		"unknown opcode": {7, 0, 0, 0, 0, 0, 0, 0},
	} {
		if text, err := seccomp.Disassemble("amd64", b); err == nil {
			t.Errorf("%s: %q and no error", name, text)
		}
	}
}

// The blocks of "none of these" are disjoint and hold all else: sixteen bits
// are tried through, the rest at its borders.
func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, arg := range []seccomp.Arg{
		{NotIn: []uint32{1}},
		{NotIn: []uint32{1, 2, 10, 16}},
		{NotIn: []uint32{0, 8, 0x20000, 0x20008, 0xffffffff}},
		{Mask: 0xf, NotIn: []uint32{1, 5}},
		{In: []uint32{0x5412, 0x541c}},
		{Mask: 0x20000, In: []uint32{0x20000}},
	} {
		blocks := arg.Blocks()
		for low := range uint32(1 << 16) {
			for _, v := range []uint32{low, low << 16, ^low, low | 1<<31} {
				matching := 0
				for _, b := range blocks {
					if v&b.Mask == b.Value {
						matching++
					}
				}
				want := 0
				if (seccomp.Rule{Args: []seccomp.Arg{arg}}).Matches([6]uint64{uint64(v)}) {
					want = 1
				}
				if matching != want {
					t.Fatalf("%s: 0x%x is in %d blocks, wanted %d", arg, v, matching, want)
				}
			}
		}
	}
}
