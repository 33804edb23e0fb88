package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// defaultPath is where execvp(3) looks without a PATH.
const defaultPath = "/bin:/usr/bin"

// shell runs a script that names no interpreter, as execvp(3) and every shell
// do.
const shell = "/bin/sh"

// executor runs one file. It returns only if that can't be executed.
type executor func(path string, argv, env []string) error

// execute runs the command, searched for along the command's own PATH. It
// returns only on failure: ENOENT means that nothing of that name was found
// (status 127), anything else that what was found can't be executed (126).
func execute(run executor, argv, env []string) *wire.Failure {
	if len(argv) == 0 || argv[0] == "" {
		return failed(wire.StepExec, "", "there is no command", unix.ENOENT)
	}
	var worst *wire.Failure
	for _, path := range candidates(argv[0], env) {
		f := attempt(run, path, argv, env)
		if f == nil || path != argv[0] && isHidden(path) {
			continue
		}
		if worst == nil {
			worst = f
		}
		if f.Errno != int(unix.EACCES) {
			return f
		}
	}
	if worst == nil {
		worst = failed(wire.StepExec, argv[0], "not found", unix.ENOENT)
	}
	return worst
}

// isHidden reports that a directory of the PATH can't be searched, so nobody
// can say that the name is there: a shell passes over it.
func isHidden(path string) bool { return unix.Access(path, unix.F_OK) == unix.EACCES }

// candidates are the files that a command's name may mean.
func candidates(name string, env []string) []string {
	if contains(name, '/') {
		return []string{name}
	}
	var list []string
	for rest, more := searchPath(env), true; more; {
		var dir string
		dir, rest, more = splitColon(rest)
		if dir == "" {
			dir = "." // an empty element is the working directory
		}
		list = append(list, dir+"/"+name)
	}
	return list
}

// attempt executes one candidate. It returns nil where the search goes on
// because nothing is there.
func attempt(run executor, path string, argv, env []string) *wire.Failure {
	err := run(path, argv, env)
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		if unix.Access(path, unix.F_OK) != nil {
			return nil
		}
		return failed(wire.StepExec, path, "its interpreter is missing", unix.ENOEXEC)
	case unix.ENOEXEC:
		if isText(path) {
			err = run(shell, append([]string{shell, path}, argv[1:]...), env)
			return failed(wire.StepExec, path, "names no interpreter, and "+shell+" cannot run it", err)
		}
	}
	return failed(wire.StepExec, path, "cannot be executed", err)
}

// isText tells a script without a first line from a program for another
// machine: no NUL stands in what would be its first line.
func isText(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return false
	}
	for _, c := range buf[:n] {
		if c == '\n' {
			return true
		}
		if c == 0 {
			return false
		}
	}
	return true
}

// searchPath is the first PATH of an environment, as getenv(3) finds it.
func searchPath(env []string) string {
	const name = "PATH="
	for _, v := range env {
		if len(v) >= len(name) && v[:len(name)] == name {
			return v[len(name):]
		}
	}
	return defaultPath
}

func contains(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}

// splitColon cuts s at its first colon.
func splitColon(s string) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
