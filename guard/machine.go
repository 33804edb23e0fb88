package guard

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// thisHost is the machine the program runs on.
func thisHost() host {
	return host{fs: newHostFS(), homeOf: homeOf, mounts: hostMounts, private: privateGroup, unmapped: unmappedUser}
}

func homeOf(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// privateGroup reports whether every member of a group is trusted, by the
// machine's own tables. A group that they don't know may hold anybody.
func privateGroup(gid uint32, trusted func(uid uint32) bool) bool {
	members, found, err := groupMembers(gid)
	if err != nil || !found {
		return false
	}
	uids := map[string]uint32{}
	err = eachLine("/etc/passwd", 4, func(f []string) bool {
		uid, ok := parseID(f[2])
		if !ok {
			return false
		}
		uids[f[0]] = uid
		primary, ok := parseID(f[3])
		return ok && (primary != gid || trusted(uid))
	})
	if err != nil {
		return false
	}
	for _, name := range members {
		if uid, ok := uids[name]; !ok || !trusted(uid) {
			return false
		}
	}
	return true
}

func groupMembers(gid uint32) (members []string, found bool, err error) {
	err = eachLine("/etc/group", 4, func(f []string) bool {
		id, ok := parseID(f[2])
		if !ok {
			return false
		}
		if id == gid {
			found = true
			if f[3] != "" {
				members = append(members, strings.Split(f[3], ",")...)
			}
		}
		return true
	})
	return members, found, err
}

var errTable = errors.New("a line that says no")

// eachLine reads a table of colon-separated fields, passwd(5) and group(5),
// until a line that f refuses.
func eachLine(file string, fields int, f func([]string) bool) error {
	t, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.Close()
	s := bufio.NewScanner(t)
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' || line[0] == '+' {
			continue
		}
		if parts := strings.Split(line, ":"); len(parts) < fields || !f(parts) {
			return errTable
		}
	}
	return s.Err()
}

func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil
}
