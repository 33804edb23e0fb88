package stub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
)

// ErrNotBuilt is what [Binary] returns from a build that left the stub out.
var ErrNotBuilt = errors.New("stub not built: run make build")

// Binary is the stub for an architecture, as GOARCH names it. A build carries
// that of its own architecture alone: another would be a megabyte and a half
// that nothing here can run. The bytes are everybody's, and not to be changed.
func Binary(arch string) ([]byte, error) {
	b, err := read()
	if arch != runtime.GOARCH {
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot find the stub for %q: %w", arch, ErrNotBuilt)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the stub for %q: %w", arch, err)
	}
	return b, nil
}

// read copies the program once: [embed.FS] makes a copy at each reading, which
// takes a millisecond.
var read = sync.OnceValues(func() ([]byte, error) { return fs.ReadFile(bin, "bin/"+runtime.GOARCH+"/init") })

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
