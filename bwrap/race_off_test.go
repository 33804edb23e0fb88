//go:build !race

package bwrap_test

// raced: the race detector multiplies the memory of the program.
const raced = false
