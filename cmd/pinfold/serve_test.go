package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
)

// serveEcho is a program for scripts: it listens on the host's loopback,
// writes its address to a file and sends back what it gets.
func serveEcho() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = writeWhole(os.Args[1], l.Addr().String())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The script's end interrupts what still runs, and waits for it; whoever
	// runs the tests in the background may have had interrupts ignored.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(0)
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn) //nolint:errcheck // the client sees it
		}()
	}
}

// writeWhole makes a file appear with its content in it.
func writeWhole(file, text string) error {
	tmp := filepath.Join(filepath.Dir(file), ".address")
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
