package stub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
)

// ErrNotBuilt is what [Binary] returns from a build that left the stub out.
var ErrNotBuilt = errors.New("stub not built: run make build")

// Program is the stub for one architecture, to be read when it is needed.
type Program struct {
	name string
	size int64
}

// Open finds the stub for an architecture, as GOARCH names it. A build carries
// that of its own architecture alone: another would be a megabyte and a half
// that nothing here can run.
func Open(arch string) (*Program, error) {
	p := &Program{name: "bin/" + arch + "/init"}
	info, err := fs.Stat(bin, p.name)
	if arch != runtime.GOARCH {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot find the stub for %q: %w", arch, ErrNotBuilt)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the stub for %q: %w", arch, err)
	}
	p.size = info.Size()
	return p, nil
}

// Size is its length in bytes.
func (p *Program) Size() int64 { return p.size }

// chunk is how much is copied at a time. All at once would be a millisecond and
// a half, most of it for memory that is never used again.
const chunk = 64 << 10

// WriteTo writes all of it.
func (p *Program) WriteTo(w io.Writer) (int64, error) {
	f, err := bin.Open(p.name)
	if err != nil {
		return 0, err
	}
	n, err := io.CopyBuffer(w, f, make([]byte, chunk))
	return n, errors.Join(err, f.Close())
}

// Binary is all of [Open] at once.
func Binary(arch string) ([]byte, error) {
	p, err := Open(arch)
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(bin, p.name)
}

// Digest is the SHA-256 of [Binary], in hexadecimal. The build computes it:
// to hash a million bytes takes longer than a tenth of a launch.
func Digest(arch string) (string, error) {
	if line, err := fs.ReadFile(bin, "bin/"+arch+"/init.sha256"); err == nil {
		return strings.TrimSpace(string(line)), nil
	}
	b, err := Binary(arch)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
