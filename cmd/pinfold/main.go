package main

import (
	"context"
	"os"
)

func main() {
	if code, inside := insideOf(os.Args); inside {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
