package hostgit

import "strings"

// remedy is what is done about a key that a repository sets.
type remedy struct {
	section, name string // of the key; any subsection
	// value stands in for the repository's, where the operator sets none.
	value string
	// refuse: nothing can stand in for it.
	refuse bool
}

// identity leaves what it is given as it is.
const identity = "cat"

// fails ends without having done anything.
const fails = "false"

// remedies are the keys whose value is executed, or decides what is. See
// git-config(1).
func remedies() []remedy {
	return []remedy{
		{section: "core", name: "editor", value: "vi"},
		{section: "core", name: "pager", value: "less"},
		{section: "core", name: "askpass"},
		{section: "core", name: "sshcommand", value: "ssh"},
		{section: "core", name: "gitproxy"},
		{section: "core", name: "alternaterefscommand", value: "true"},
		{section: "core", name: "worktree", refuse: true},
		{section: "sequence", name: "editor", value: "vi"},
		{section: "pager", name: "*", value: "false"},
		{section: "alias", name: "*", value: "!false"},
		{section: "gpg", name: "program", value: "gpg"},
		{section: "gpg", name: "defaultkeycommand"},
		{section: "credential", name: "helper"},
		{section: "diff", name: "external"},
		{section: "diff", name: "command"},
		{section: "diff", name: "textconv", value: identity},
		{section: "difftool", name: "cmd", value: fails},
		{section: "difftool", name: "path", value: fails},
		{section: "mergetool", name: "cmd", value: fails},
		{section: "mergetool", name: "path", value: fails},
		{section: "guitool", name: "cmd", value: fails},
		{section: "merge", name: "driver", value: fails},
		{section: "filter", name: "clean"},
		{section: "filter", name: "smudge"},
		{section: "filter", name: "process"},
		{section: "filter", name: "required", value: "false"},
		{section: "interactive", name: "difffilter", value: identity},
		{section: "remote", name: "uploadpack", value: "git-upload-pack"},
		{section: "remote", name: "receivepack", value: "git-receive-pack"},
		{section: "remote", name: "vcs", refuse: true},
		{section: "submodule", name: "update", value: "checkout"},
		{section: "trailer", name: "command", value: "true"},
		{section: "trailer", name: "cmd", value: "true"},
		{section: "tar", name: "command", value: fails},
		{section: "browser", name: "*", value: fails},
		{section: "man", name: "*", value: fails},
		{section: "web", name: "browser", value: fails},
		{section: "instaweb", name: "*", value: fails},
		{section: "sendemail", name: "*", value: ""},
		{section: "gc", name: "recentobjectshook", value: "true"},
		{section: "maintenance", name: "strategy", value: "none"},
		{section: "init", name: "templatedir"},
		{section: "imap", name: "tunnel", value: fails},
		{section: "hook", name: "*", refuse: true},
	}
}

// always is set in every case: what a repository could say, or a newer git do
// by itself.
func always() []setting {
	return []setting{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"protocol.ext.allow", "never"},
		{"submodule.recurse", "false"},
		{"fetch.recurseSubmodules", "false"},
		{"push.recurseSubmodules", "no"},
		{"log.showSignature", "false"},
		{"safe.bareRepository", "explicit"},
		{"maintenance.auto", "false"},
		{"gc.auto", "0"},
	}
}

// setting is one line of configuration.
type setting struct{ key, value string }

// remedyFor answers what is to be done about a key, and whether anything is.
// Section and name of a key have no case; a subsection, which may hold dots,
// has.
func remedyFor(key string) (remedy, bool) {
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	for _, r := range remedies() {
		if strings.EqualFold(section, r.section) && (r.name == "*" || strings.EqualFold(name, r.name)) {
			return r, true
		}
	}
	return remedy{}, false
}
