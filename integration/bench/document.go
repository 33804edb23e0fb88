package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
)

// document is docs/benchmarks.md.
func (b *bench) document() string {
	var out strings.Builder
	out.WriteString(`# Benchmarks

Written by ` + "`make bench`" + `. The ratios are what counts: both sides of a row were
measured in one run, taking turns, so a slow or busy machine slows both. Times
are medians, of whole processes, from start to end.

| what | ratio | pinfold | peer | aim |
|---|---|---|---|---|
`)
	for _, r := range b.rows {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", r.what, r.ratio, r.ours, r.peer, r.aim)
	}
	fmt.Fprintf(&out, "\nMeasured on %s.\n", machine())
	out.WriteString(`
What a launch does that the same mounts with plain bubblewrap don't: reading the
policy, resolving every path by descriptor, a second small program inside that
compares each mount with the grant, two filters, Landlock, and a supervisor that
stays. srt and fence are measured where they are installed, with a policy that
grants the same workspace and no host, or for a transfer the one that serves it.
What a client needs to start is no part of a transfer.

The same mounts are as many as the plan has: root's are some forty more than an
ordinary user's, for what is root's own in ` + "`/proc`" + `. bubblewrap reads the mount table
again for each that it makes; the supervisor mounts covers and those itself.
`)
	return out.String()
}

// machine names this machine in general terms.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), runtime.GOARCH)}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err == nil {
			parts = append(parts, fmt.Sprintf("%d GiB of memory", (kb+1<<19)>>20))
		}
	}
	if b, err := os.ReadFile("/etc/os-release"); err == nil {
		if m := regexp.MustCompile(`PRETTY_NAME="([^"]+)"`).FindSubmatch(b); m != nil {
			parts = append(parts, string(m[1]))
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+regexp.MustCompile(`^\d+\.\d+`).FindString(string(b)))
	}
	if b, err := exec.Command("bwrap", "--version").Output(); err == nil {
		parts = append(parts, strings.TrimSpace(string(b)))
	}
	user := "an ordinary user"
	if os.Getuid() == 0 {
		user = "root"
	}
	return strings.Join(append(parts, runtime.Version(), "as "+user), ", ")
}
