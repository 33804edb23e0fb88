package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// progressDelay is how long pinfold's own work may take before it says so: a
// walk of a few hundred thousand files.
const progressDelay = time.Second

// during shows a line while pinfold itself is at work, if that takes long and
// somebody is looking: standard error is a terminal, and this process in its
// foreground. Call what it returns when the work is done; the line is gone
// then.
func (p *program) during(what string) (done func()) {
	if p.quiet || p.format != "text" || !isWatched(p.Err) {
		return func() {}
	}
	return showProgress(p.Err, "pinfold: "+what, progressDelay)
}

// isWatched reports whether a file is a terminal that shows this process.
func isWatched(f *os.File) bool {
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err != nil {
		return false
	}
	pgrp, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// showProgress writes the line, with the time that it has taken, once each
// delay, and takes it away.
func showProgress(w io.Writer, line string, delay time.Duration) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(delay)
		defer ticker.Stop()
		width := 0
		for {
			select {
			case <-stop:
				if width > 0 {
					fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
				}
				return
			case <-ticker.C:
				text := fmt.Sprintf("%s (%d s)", line, int(time.Since(began).Seconds()))
				width = max(width, len(text))
				fmt.Fprintf(w, "\r%s", text)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
