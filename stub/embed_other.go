//go:build !amd64 && !arm64

package stub

import "embed"

// bin is empty: there is no stub for this architecture.
var bin embed.FS
