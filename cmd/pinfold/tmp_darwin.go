package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pinfold/bwrap"
	"pinfold/seatbelt"
)

// makeTmp makes the launch's own temporary directory, in the user's own one,
// which confstr(3) names, or else in the state directory. suffix is its name
// there.
func (l *prepared) makeTmp(ctx context.Context) (tmp seatbelt.Fresh, suffix string, err error) {
	dir, err := os.MkdirTemp(userTemp(ctx), "pinfold-")
	if err != nil {
		dir, err = l.makeFresh(l.request.State, freshTmp)
	} else {
		suffix = filepath.Base(dir)
		l.fresh = append(l.fresh, bwrap.Fresh{Name: "{" + freshTmp + "}", Path: dir})
	}
	if err != nil {
		return seatbelt.Fresh{}, "", err
	}
	canonical, err := filepath.EvalSymlinks(dir)
	return seatbelt.Fresh{Name: "{" + freshTmp + "}", Path: canonical}, suffix, err
}

// getconfTime bounds a look at a name.
const getconfTime = 5 * time.Second

// userTemp is the directory that macOS keeps for what this user's programs
// leave, and empties by itself; a name that nothing stands under where it
// isn't this user's alone.
func userTemp(ctx context.Context) string {
	const none = "/nonexistent"
	ctx, cancel := context.WithTimeout(ctx, getconfTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/getconf", "DARWIN_USER_TEMP_DIR")
	cmd.Env, cmd.Dir = []string{}, "/"
	out, err := cmd.Output()
	dir := filepath.Clean(strings.TrimSpace(string(out)))
	if err != nil || !filepath.IsAbs(dir) {
		return none
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return none
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return none
	}
	return dir
}
