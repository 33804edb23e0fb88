// Package container holds the tests of the container tier against real
// engines: docker, podman as root, and podman as an ordinary user. They run
// with PINFOLD_INTEGRATION=1.
package container
