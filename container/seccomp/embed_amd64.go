package seccomp

import _ "embed"

//go:embed profiles/amd64.json
var profile []byte
