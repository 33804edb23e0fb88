package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"pinfold/policy"
)

// becomeUser replaces this process by one that runs the same command line as
// the named user. The new process finds itself to be that user already, for
// which becomeUser does nothing.
func (p *program) becomeUser(name string) error {
	id, err := lookupIdentity(name)
	if err != nil {
		return userRefusal(name, fmt.Errorf("cannot become user %q: %w", name, err), "name an existing account with --user")
	}
	if os.Geteuid() == id.uid && os.Getuid() == id.uid {
		return nil
	}
	if os.Geteuid() != 0 {
		return userRefusal(name, fmt.Errorf("cannot become user %q: only root may", name),
			"leave --user out, or start pinfold as root")
	}
	if err := p.execAs(id); err != nil {
		return userRefusal(name, fmt.Errorf("cannot become user %q: %w", name, err),
			"check that the account may run the pinfold executable")
	}
	return nil
}

func userRefusal(name string, err error, fix string) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "user_unusable", Subject: name, Why: err.Error(), Fix: fix, Err: err,
	}
}

// identity is all that a process must know to be somebody.
type identity struct {
	uid, gid   int
	groups     []int
	name, home string
}

func lookupIdentity(name string) (identity, error) {
	u, err := user.Lookup(name)
	number := strings.TrimPrefix(name, "#") // as sudo has it
	if _, numeric := strconv.Atoi(number); err != nil && numeric == nil {
		u, err = user.LookupId(number)
	}
	if err != nil {
		return identity{}, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return identity{}, err
	}
	id := identity{name: u.Username, home: u.HomeDir}
	id.uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return identity{}, err
	}
	for _, s := range append([]string{u.Gid}, ids...) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return identity{}, err
		}
		if !slices.Contains(id.groups, n) {
			id.groups = append(id.groups, n)
		}
	}
	id.gid = id.groups[0]
	return id, nil
}

// execAs drops to id and runs this executable anew, so that nothing of root's
// (memory, capabilities, the non-dumpable flag) is left. The Go runtime
// applies the three calls to every thread.
func (p *program) execAs(id identity) error {
	if err := syscall.Setgroups(id.groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setresgid(id.gid, id.gid, id.gid); err != nil {
		return fmt.Errorf("setresgid: %w", err)
	}
	if err := syscall.Setresuid(id.uid, id.uid, id.uid); err != nil {
		return fmt.Errorf("setresuid: %w", err)
	}
	if id.uid != 0 && syscall.Setresuid(0, 0, 0) == nil {
		return errors.New("root's rights can be taken back")
	}
	argv := append([]string{"pinfold"}, p.args...)
	return syscall.Exec("/proc/self/exe", argv, userEnv(os.Environ(), id))
}

// userEnv is root's environment made the user's: who and where one is, and no
// directory, bus or agent of root's own.
func userEnv(env []string, id identity) []string {
	drop := []string{
		"HOME", "USER", "LOGNAME", "MAIL", "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND", "SUDO_HOME",
		"DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GNUPGHOME", "XAUTHORITY",
	}
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "XDG_") || slices.Contains(drop, name)
	})
	out = append(out, "HOME="+id.home, "USER="+id.name, "LOGNAME="+id.name)
	if dir := filepath.Join("/run/user", strconv.Itoa(id.uid)); ownedBy(dir, id.uid) {
		out = append(out, "XDG_RUNTIME_DIR="+dir)
	}
	return out
}

func ownedBy(path string, uid int) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && int(st.Uid) == uid
}
