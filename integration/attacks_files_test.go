//go:build linux

package integration_test

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func attacks() map[string]attack {
	all := map[string]attack{}
	for _, table := range []map[string]attack{
		readAttacks(), writeAttacks(), nameAttacks(), hostWriteAttacks(),
		descriptorAttacks(), socketAttacks(), namespaceAttacks(), processAttacks(), kernelAttacks(),
	} {
		maps.Copy(all, table)
	}
	return all
}

func readAttacks() map[string]attack {
	table := map[string]attack{
		"read ssh key through a link": {args: []string{"read", "{ws}/link", secret}, prepare: linkTo("{ws}/link", "{home}/.ssh/id_ed25519")},
		"read ssh directory as a link": {
			args: []string{"read", "{ws}/link/id_ed25519", secret}, prepare: linkTo("{ws}/link", "{home}/.ssh"),
		},
		"read by dot-dot":      {args: []string{"read", "{ws}/../home/.ssh/id_ed25519", secret}},
		"read through proc":    {args: []string{"read", "/proc/self/root{home}/.ssh/id_ed25519", secret}},
		"read through proc 1":  {args: []string{"read", "/proc/1/root{home}/.ssh/id_ed25519", secret}, noControl: "pid 1 outside is the host's"},
		"list ssh":             {args: []string{"list", "{home}/.ssh"}},
		"read protected token": {args: []string{"read", "{protect}/token", secret}},
		"list protected":       {args: []string{"list", "{protect}"}},
		"list pinfold's state": {args: []string{"list", "{state}"}, prepare: func(t *testing.T, l *lab) []string {
			write(t, l.state+"/x", "x", 0o600)
			must(t, os.Chmod(l.state, 0o700))
			return nil
		}},
		"read a denied file":     {args: []string{"read", "{ws}/secrets/prod.env", secret}, prepare: deniedFile, policy: denies("{workspace}/secrets/prod.env")},
		"read in a denied tree":  {args: []string{"read", "{ws}/secrets/prod.env", secret}, prepare: deniedFile, policy: denies("{workspace}/secrets")},
		"list a denied tree":     {args: []string{"list", "{ws}/secrets"}, prepare: deniedFile, policy: denies("{workspace}/secrets")},
		"set the setuid bit":     {args: []string{"setuid", "{ws}/README.md"}, after: noSetuid("{ws}/README.md")},
		"hard link out":          {args: []string{"link", "{home}/.netrc", "{ws}/netrc"}, after: absent("{ws}/netrc")},
		"open by handle":         {args: []string{"handle", "{ws}/README.md"}, root: true},
		"host file in tmp":       {args: []string{"read", "{tmp}", secret}, prepare: tmpFile("/tmp")},
		"host file in var tmp":   {args: []string{"read", "{tmp}", secret}, prepare: tmpFile("/var/tmp")},
		"host file in dev shm":   {args: []string{"read", "{tmp}", secret}, prepare: tmpFile("/dev/shm")},
		"read kernel keys":       {args: []string{"read", "/proc/keys", "I"}, prepare: hostKey},
		"read kernel key users":  {args: []string{"read", "/proc/key-users", ":"}},
		"read kernel timer list": {args: []string{"read", "/proc/timer_list"}, root: true},
		"open a block device":    {args: []string{"openw", "{dev}"}, prepare: blockDevice, noControl: "nobody opens the host's disks here"},
	}
	for _, name := range []string{".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".config/gh/hosts.yml", ".gnupg/private-keys-v1.d/k.key", ".kube/config", ".docker/config.json", ".npmrc", ".pgpass", ".bash_history"} {
		table["read "+name] = attack{args: []string{"read", "{home}/" + name, secret}}
	}
	for _, how := range []string{"open", "creat", "mknod", "openat2", "tmpfile"} {
		table["make a setuid file by "+how] = attack{args: []string{"makesetuid", how, "{ws}/new", "{ws}"}, after: absent("{ws}/new")}
	}
	return table
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func denies(paths ...string) doc {
	p := workspaceOnly()
	p["read"] = doc{"deny": paths}
	return p
}

func readOnly(paths ...string) doc {
	p := workspaceOnly()
	p["read_only"] = paths
	return p
}

func linkTo(link, target string) func(*testing.T, *lab) []string {
	return func(t *testing.T, l *lab) []string {
		t.Helper()
		must(t, os.Symlink(l.place(nil).Replace(target), l.place(nil).Replace(link)))
		return nil
	}
}

func deniedFile(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/secrets/prod.env", secret+"\n", 0o600)
	write(t, l.ws+"/secrets/sample.env", "fine\n", 0o600)
	return nil
}

// tmpFile leaves a file in a shared temporary directory of the host.
func tmpFile(dir string) func(*testing.T, *lab) []string {
	return func(t *testing.T, _ *lab) []string {
		t.Helper()
		f, err := os.CreateTemp(dir, "pinfold-lab-")
		must(t, err)
		t.Cleanup(func() { os.Remove(f.Name()) })
		_, err = f.WriteString(secret)
		must(t, err)
		must(t, f.Close())
		return []string{"{tmp}", f.Name()}
	}
}

// hostKey leaves a key in the tests' own keyring, so that there is one to see.
func hostKey(t *testing.T, _ *lab) []string {
	t.Helper()
	id, err := unix.AddKey("user", "pinfold-lab", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_REVOKE, id, 0, 0, 0) })
	return nil
}

func blockDevice(t *testing.T, _ *lab) []string {
	t.Helper()
	found, err := filepath.Glob("/dev/[svn][dv][a-z]*")
	must(t, err)
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0 {
			return []string{"{dev}", path}
		}
	}
	t.Skip("this kernel can't: no block device here")
	return nil
}

func writeAttacks() map[string]attack {
	config := "{ws}/.git/config"
	hook := "{ws}/.git/hooks/pre-commit"
	return map[string]attack{
		"write outside":                 {args: []string{"write", "{public}/new"}, after: absent("{public}/new")},
		"write a start-up file":         {args: []string{"write", "{home}/.bashrc"}, after: unchanged("{home}/.bashrc", "# start-up file\n")},
		"write into ssh":                {args: []string{"write", "{home}/.ssh/authorized_keys"}, after: absent("{home}/.ssh/authorized_keys")},
		"write the protected token":     {args: []string{"write", "{protect}/token"}, after: unchanged("{protect}/token", secret+" daemon/token\n")},
		"write beside the token":        {args: []string{"write", "{protect}/new"}, after: absent("{protect}/new")},
		"write through a link":          {args: []string{"write", "{ws}/link"}, prepare: linkTo("{ws}/link", "{home}/.bashrc"), after: unchanged("{home}/.bashrc", "# start-up file\n")},
		"write git config":              {args: []string{"openw", config}},
		"write a git hook":              {args: []string{"openw", hook}, after: unchanged(hook, "#!/bin/sh\n")},
		"write what a hook links to":    {args: []string{"openw", "{ws}/hook.sh"}, prepare: linkedHook, after: unchanged("{ws}/hook.sh", "#!/bin/sh\n")},
		"make a git hook":               {args: []string{"write", "{ws}/.git/hooks/post-commit"}, after: absent("{ws}/.git/hooks/post-commit")},
		"write git info":                {args: []string{"write", "{ws}/.git/info/attributes"}, after: absent("{ws}/.git/info/attributes")},
		"remove a git hook":             {args: []string{"unlink", hook}, after: unchanged(hook, "#!/bin/sh\n")},
		"write a read-only path":        {args: []string{"write", "{ws}/vendor/a"}, prepare: vendor, policy: readOnly("{workspace}/vendor"), after: unchanged("{ws}/vendor/a", "a\n")},
		"make in a read-only path":      {args: []string{"mkdir", "{ws}/vendor/b"}, prepare: vendor, policy: readOnly("{workspace}/vendor"), after: absent("{ws}/vendor/b")},
		"truncate a read-only path":     {args: []string{"truncate", "{ws}/vendor/a"}, prepare: vendor, policy: readOnly("{workspace}/vendor"), after: unchanged("{ws}/vendor/a", "a\n")},
		"change a mode":                 {args: []string{"chmod", "{home}/.bashrc"}},
		"change times":                  {args: []string{"utimes", "{home}/.bashrc"}},
		"set an attribute":              {args: []string{"xattr", "{home}/.bashrc"}},
		"truncate a start-up file":      {args: []string{"truncate", "{home}/.bashrc"}, after: unchanged("{home}/.bashrc", "# start-up file\n")},
		"remove a start-up file":        {args: []string{"unlink", "{home}/.bashrc"}, after: unchanged("{home}/.bashrc", "# start-up file\n")},
		"write into a denied tree":      {args: []string{"write", "{ws}/secrets/new"}, prepare: deniedFile, policy: denies("{workspace}/secrets"), after: absent("{ws}/secrets/new")},
		"replace a denied file":         {args: []string{"rename", "{ws}/README.md", "{ws}/secrets/prod.env"}, prepare: deniedFile, policy: denies("{workspace}/secrets/prod.env"), after: unchanged("{ws}/secrets/prod.env", secret+"\n")},
		"write to a host FIFO":          {args: []string{"fifo", "{public}/fifo"}, prepare: hostFIFO},
		"make a device":                 {args: []string{"mknod", "{ws}/device"}, root: true, after: absent("{ws}/device")},
		"guarded editor settings":       {args: []string{"write", "{ws}/.vscode/tasks.json"}, prepare: vscode, after: unchanged("{ws}/.vscode/tasks.json", "{}\n")},
		"guarded agent server settings": {args: []string{"write", "{ws}/.mcp.json"}, prepare: mcp, after: unchanged("{ws}/.mcp.json", "{}\n")},
	}
}

func linkedHook(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/hook.sh", "#!/bin/sh\n", 0o755)
	return linkTo("{ws}/.git/hooks/pre-push", "../../hook.sh")(t, l)
}

func vendor(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/vendor/a", "a\n", 0o644)
	return nil
}

func vscode(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/.vscode/tasks.json", "{}\n", 0o644)
	return nil
}

func mcp(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/.mcp.json", "{}\n", 0o644)
	return nil
}

// hostFIFO makes a FIFO with a reader, which says if anything arrives.
func hostFIFO(t *testing.T, l *lab) []string {
	t.Helper()
	path := l.public + "/fifo"
	must(t, unix.Mkfifo(path, 0o666))
	must(t, os.Chmod(path, 0o666))
	f, err := os.OpenFile(path, os.O_RDWR, 0) // never at end of file
	must(t, err)
	t.Cleanup(func() { f.Close() })
	go func() {
		for scan := bufio.NewScanner(f); scan.Scan(); {
		}
	}()
	return nil
}

// nameAttacks move what is covered out of the way instead of writing to it.
func nameAttacks() map[string]attack {
	return map[string]attack{
		"rename .git":               {args: []string{"rename", "{ws}/.git", "{ws}/g"}, after: absent("{ws}/g")},
		"rename git hooks":          {args: []string{"rename", "{ws}/.git/hooks", "{ws}/.git/h"}, after: absent("{ws}/.git/h")},
		"rename git config":         {args: []string{"rename", "{ws}/.git/config", "{ws}/.git/c"}, after: absent("{ws}/.git/c")},
		"exchange .git":             {args: []string{"exchange", "{ws}/.git", "{ws}/other"}, prepare: otherDir, after: absent("{ws}/.git/mine")},
		"exchange git hooks":        {args: []string{"exchange", "{ws}/.git/hooks", "{ws}/other"}, prepare: otherDir, after: absent("{ws}/.git/hooks/mine")},
		"replace git config":        {args: []string{"rename", "{ws}/README.md", "{ws}/.git/config"}},
		"rename a pinned parent":    {args: []string{"rename", "{ws}/a/b", "{ws}/a/c"}, prepare: deep, policy: readOnly("{workspace}/a/b/keep"), after: absent("{ws}/a/c")},
		"rename a pinned ancestor":  {args: []string{"rename", "{ws}/a", "{ws}/c"}, prepare: deep, policy: readOnly("{workspace}/a/b/keep"), after: absent("{ws}/c")},
		"rename a read-only name":   {args: []string{"rename", "{ws}/a/b/keep", "{ws}/a/b/k"}, prepare: deep, policy: readOnly("{workspace}/a/b/keep"), after: unchanged("{ws}/a/b/keep", "keep\n")},
		"remove a read-only name":   {args: []string{"unlink", "{ws}/a/b/keep"}, prepare: deep, policy: readOnly("{workspace}/a/b/keep"), after: unchanged("{ws}/a/b/keep", "keep\n")},
		"rename a denied directory": {args: []string{"rename", "{ws}/secrets", "{ws}/s"}, prepare: deniedFile, policy: denies("{workspace}/secrets"), after: absent("{ws}/s")},
		"make a missing git file":   {args: []string{"write", "{ws}/later"}, policy: denies("{workspace}/later"), after: absent("{ws}/later")},
	}
}

func otherDir(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/other/mine", "mine\n", 0o755)
	return nil
}

func deep(t *testing.T, l *lab) []string {
	t.Helper()
	write(t, l.ws+"/a/b/keep", "keep\n", 0o644)
	return nil
}

// hostWriteAttacks are what uid 0 owns and could write without a capability.
func hostWriteAttacks() map[string]attack {
	return map[string]attack{
		"write proc sys":         {args: []string{"rewrite", "/proc/sys/kernel/domainname"}, root: true},
		"write proc sys vm":      {args: []string{"rewrite", "/proc/sys/vm/swappiness"}, root: true},
		"write proc sys net":     {args: []string{"openw", "/proc/sys/net/ipv4/ip_default_ttl"}, root: true},
		"remount proc sys":       {args: []string{"remount", "/proc/sys"}, noControl: "remounting the host's own is out of bounds"},
		"write sysrq":            {args: []string{"openw", "/proc/sysrq-trigger"}, root: true, prepare: existing("/proc/sysrq-trigger")},
		"write sys":              {args: []string{"openw", "/sys/kernel/profiling"}, root: true, prepare: existing("/sys/kernel/profiling")},
		"write etc":              {args: []string{"openw", "/etc/passwd"}, root: true},
		"make in etc":            {args: []string{"write", "/etc/pinfold-lab"}, noControl: "it would stay on the host", after: absent("/etc/pinfold-lab")},
		"write the stub's place": {args: []string{"write", "/dev/.pinfold"}, noControl: "there is none outside"},
		"read shadow":            {args: []string{"read", "/etc/shadow"}, root: true},
	}
}

// existing skips where this kernel has no such file.
func existing(path string) func(*testing.T, *lab) []string {
	return func(t *testing.T, _ *lab) []string {
		t.Helper()
		if _, err := os.Stat(path); err != nil {
			t.Skipf("this kernel can't: %v", err)
		}
		return nil
	}
}
