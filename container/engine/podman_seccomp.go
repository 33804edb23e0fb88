package engine

import (
	"errors"
	"fmt"
	"os"
)

// profileFile puts a seccomp profile where podman can read it: it takes no
// profile in the request, only the name of a file. It has read the file once
// the container is made.
func profileFile(profile []byte) (name string, remove func() error, err error) {
	f, err := os.CreateTemp("", "pinfold-seccomp-*.json")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.Remove(f.Name()) }
	_, err = f.Write(profile)
	// The service may be another user's, who has to read it.
	err = errors.Join(err, f.Chmod(0o444), f.Close())
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("cannot write the filter for podman: %w", err), remove())
	}
	return f.Name(), remove, nil
}
