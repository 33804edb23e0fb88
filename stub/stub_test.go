package stub_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"runtime"
	"testing"

	"pinfold/stub"
)

func TestBinaryNamesTheFix(t *testing.T) {
	t.Parallel()
	b, err := stub.Binary("pdp11")
	if !errors.Is(err, stub.ErrNotBuilt) || b != nil {
		t.Errorf("got %d bytes and %v, wanted ErrNotBuilt", len(b), err)
	}
}

// Whatever is embedded is a static program for the machine it is named for.
func TestBinaryIsStatic(t *testing.T) {
	t.Parallel()
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b, err := stub.Binary(arch)
		if arch != runtime.GOARCH {
			if !errors.Is(err, stub.ErrNotBuilt) {
				t.Errorf("%s: got %v, wanted ErrNotBuilt: a build carries its own alone", arch, err)
			}
			continue
		}
		if errors.Is(err, stub.ErrNotBuilt) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		if f.Machine != machine {
			t.Errorf("%s: machine %v", arch, f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: not static: has %v", arch, p.Type)
			}
		}
		if len(b) > 3<<20 {
			t.Errorf("%s: %d bytes", arch, len(b))
		}
	}
}

// The digest that the build wrote down is that of what it embedded.
func TestDigest(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		b, err := stub.Binary(arch)
		if errors.Is(err, stub.ErrNotBuilt) {
			if _, err := stub.Digest(arch); !errors.Is(err, stub.ErrNotBuilt) {
				t.Errorf("%s: got %v, wanted ErrNotBuilt", arch, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if got, err := stub.Digest(arch); err != nil || got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: got %q, %v, wanted %x", arch, got, err, sum)
		}
	}
}
