package policy

import (
	"path"
	"strconv"
	"strings"
)

// DenyKind says what a default deny keeps away.
type DenyKind string

// The kinds.
const (
	// KindCredential: a file or directory of secrets, histories or profiles.
	KindCredential DenyKind = "credential"
	// KindEscapeSocket: a socket, or a directory of them, behind which a
	// service would act for the command outside the boundary.
	KindEscapeSocket DenyKind = "escape_socket"
	// KindSystem: secrets of the machine, which only root could read.
	KindSystem DenyKind = "system"
)

// Lift is the list of a policy that lifts a default deny by naming exactly
// its path.
type Lift string

// The lists.
const (
	LiftReadAllow Lift = "read.allow"
	LiftSockets   Lift = "sockets"
)

// DefaultDeny is one path that no launch reaches, to read or to write, unless
// the policy lifts it by name. It looks empty, not forbidden: everyday tools
// die of an unreadable ~/.npmrc and are content with an empty one.
type DefaultDeny struct {
	Kind DenyKind
	// Text is the path as documentation and messages show it: "~/.ssh",
	// "$SSH_AUTH_SOCK".
	Text string
	// Path is absolute and clean; its links are not resolved.
	Path string
	Lift Lift
	// Variable is the environment variable that names it, "" where it stands
	// there anyway. Dir: what the variable names is a directory.
	Variable string
	Dir      bool
}

// DefaultContext is what the default denies of one launch depend on. Nothing
// is read from the process.
type DefaultContext struct {
	GOOS string // "linux" or "darwin"
	UID  int
	Home string
	// RuntimeDir is $XDG_RUNTIME_DIR, SSHAuthSock $SSH_AUTH_SOCK; "" where
	// unset.
	RuntimeDir  string
	SSHAuthSock string
	// ConfigHome is $XDG_CONFIG_HOME, DataHome $XDG_DATA_HOME; where one is
	// set, what is denied beneath ~/.config or ~/.local/share is denied
	// beneath it too.
	ConfigHome string
	DataHome   string
	// Env answers the caller's variables that move credentials elsewhere, "" for
	// one that isn't set; nil means none.
	Env func(name string) string
}

// DefaultDenies is the table of default denies for one launch: credentials,
// browser profiles and shell histories, for root the machine's secrets, and
// the escape sockets. Every path of it stands there whether it exists or not,
// and none twice.
func DefaultDenies(ctx DefaultContext) []DefaultDeny {
	var t denyTable
	t.ctx = ctx
	t.add(KindCredential, credentialPaths)
	t.add(KindCredential, historyPaths)
	t.add(KindCredential, byOS(ctx.GOOS, linuxProfiles, darwinProfiles))
	t.addMoved()
	if ctx.UID == 0 {
		t.add(KindSystem, byOS(ctx.GOOS, rootPaths, darwinRootPaths))
	}
	t.add(KindEscapeSocket, homeSockets)
	t.add(KindEscapeSocket, byOS(ctx.GOOS, linuxSockets, darwinSockets))
	t.addOne(KindEscapeSocket, "$SSH_AUTH_SOCK", ctx.SSHAuthSock)
	if ctx.GOOS != "darwin" {
		t.addOne(KindEscapeSocket, "$XDG_RUNTIME_DIR", ctx.RuntimeDir)
		run := "/run/user/" + strconv.Itoa(ctx.UID)
		t.addOne(KindEscapeSocket, run, run)
	}
	return t.denies
}

func byOS(goos string, linux, darwin []string) []string {
	if goos == "darwin" {
		return darwin
	}
	return linux
}

// denyTable gathers denies without repeating a path.
type denyTable struct {
	ctx    DefaultContext
	denies []DefaultDeny
	seen   map[string]bool
}

func (t *denyTable) add(kind DenyKind, texts []string) {
	for _, text := range texts {
		t.addOne(kind, text, t.expand(text))
		for _, moved := range t.moved(text) {
			t.addOne(kind, moved, moved)
		}
	}
}

// addOne leaves out what isn't absolute: an unset variable, or one that no
// program would follow either (the XDG base directory specification says that
// relative values are ignored).
func (t *denyTable) addOne(kind DenyKind, text, target string) {
	if !strings.HasPrefix(target, "/") || path.Clean(target) == "/" {
		return
	}
	target = path.Clean(target)
	if t.seen[target] {
		return
	}
	if t.seen == nil {
		t.seen = map[string]bool{}
	}
	t.seen[target] = true
	lift := LiftReadAllow
	if kind == KindEscapeSocket {
		lift = LiftSockets
	}
	t.denies = append(t.denies, DefaultDeny{Kind: kind, Text: text, Path: target, Lift: lift})
}

func (t *denyTable) expand(text string) string {
	rest, ok := strings.CutPrefix(text, "~/")
	if !ok {
		return text
	}
	if t.ctx.Home == "" {
		return ""
	}
	return path.Join(t.ctx.Home, rest)
}

// moved is where a path of the home stands too when the XDG variables move
// its directory.
func (t *denyTable) moved(text string) []string {
	var paths []string
	if rest, ok := strings.CutPrefix(text, "~/.config/"); ok && t.ctx.ConfigHome != "" {
		paths = append(paths, path.Join(t.ctx.ConfigHome, rest))
	}
	if rest, ok := strings.CutPrefix(text, "~/.local/share/"); ok && t.ctx.DataHome != "" {
		paths = append(paths, path.Join(t.ctx.DataHome, rest))
	}
	return paths
}
