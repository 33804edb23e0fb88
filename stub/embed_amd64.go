package stub

import "embed"

// bin holds the stub for this architecture, and its digest; the README lets a
// bare clone compile.
//
//go:embed bin/amd64
var bin embed.FS
