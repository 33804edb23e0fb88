package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"pinfold/guard"
)

// itself is this program by the names that the caller's next launch may use:
// the kernel's, and the one it was called by. Where they are granted for
// writing, as in pinfold's own clone, they are read-only inside.
func itself() []guard.Kept {
	exe, err := os.Executable()
	if err != nil || !filepath.IsAbs(exe) {
		return nil // out of this root: nobody has a name for it
	}
	kept := []guard.Kept{{Path: exe, Name: "pinfold itself", Kind: guard.File}}
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if err == nil && called != exe && sameFile(called, exe) {
		kept = append(kept, guard.Kept{Path: called, Name: "pinfold itself", Kind: guard.File})
	}
	return kept
}
