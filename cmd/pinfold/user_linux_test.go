package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Nothing of root's places, buses or agents is left; everything else is.
func TestUserEnv(t *testing.T) {
	t.Parallel()
	env := []string{
		"PATH=/usr/bin", "HOME=/root", "USER=root", "LOGNAME=root", "SUDO_USER=x", "XDG_RUNTIME_DIR=/run/user/0",
		"XDG_STATE_HOME=/root/state", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus", "SSH_AUTH_SOCK=/root/agent",
		"LANG=C", "PINFOLD_STATE=/srv/state", "HOMEBREW=1", "EMPTY=",
	}
	got := userEnv(env, identity{uid: 1 << 30, gid: 1, name: "someone", home: "/home/someone"})
	slices.Sort(got)
	want := []string{
		"EMPTY=", "HOME=/home/someone", "HOMEBREW=1", "LANG=C", "LOGNAME=someone", "PATH=/usr/bin",
		"PINFOLD_STATE=/srv/state", "USER=someone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLookupIdentity(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"root", "0", "#0"} {
		id, err := lookupIdentity(name)
		if err != nil || id.uid != 0 || id.gid != 0 || id.name != "root" || !slices.Contains(id.groups, 0) {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
	}
	for _, name := range []string{"", "#", "no-such-user", "4294967295"} {
		if id, err := lookupIdentity(name); err == nil {
			t.Errorf("%q: got %+v", name, id)
		}
	}
}
