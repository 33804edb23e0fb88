package seccomp

import _ "embed"

//go:embed profiles/arm64.json
var profile []byte
