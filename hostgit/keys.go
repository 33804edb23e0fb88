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

// plainDiff shows what an external diff program is asked for: it gets path,
// old file, hash, mode, new file, hash and mode (git(1), GIT_EXTERNAL_DIFF),
// and git stops where it fails.
const plainDiff = `sh -c 'diff -u --label "a/$1" --label "b/$1" -- "$2" "$5"; exit 0' diff`

// remedies are the keys whose value is executed, or decides what is, or what
// is written where. See git-config(1).
func remedies() []remedy {
	return []remedy{
		{section: "core", name: "editor", value: "vi"},
		{section: "core", name: "pager", value: "less"},
		{section: "core", name: "askpass"},
		{section: "core", name: "sshcommand", value: "ssh"},
		{section: "core", name: "gitproxy", refuse: true}, // the first match wins, not the last
		{section: "core", name: "worktree", refuse: true},
		{section: "sequence", name: "editor", value: "vi"},
		{section: "ssh", name: "variant", value: "auto"},
		{section: "pager", name: "*", value: fails},
		{section: "alias", name: "*", value: "!false"},
		{section: "gpg", name: "program", value: ""},
		{section: "gpg", name: "defaultkeycommand", value: fails},
		{section: "credential", name: "helper"},
		{section: "branch", name: "mergeoptions"},
		{section: "rebase", name: "instructionformat", value: "%s"}, // a line of it may be an exec
		{section: "diff", name: "external", value: plainDiff},
		{section: "diff", name: "command", value: plainDiff},
		{section: "diff", name: "textconv", value: identity},
		{section: "diff", name: "tool", refuse: true}, // a file to be sourced, unless it is a plain name
		{section: "diff", name: "guitool", refuse: true},
		{section: "difftool", name: "cmd", value: fails},
		{section: "difftool", name: "path", value: fails},
		{section: "mergetool", name: "cmd", value: fails},
		{section: "mergetool", name: "path", value: fails},
		{section: "mergetool", name: "layout", refuse: true}, // a shell evaluates it
		{section: "guitool", name: "cmd", value: fails},
		{section: "merge", name: "driver", value: fails},
		{section: "merge", name: "tool", refuse: true},
		{section: "merge", name: "guitool", refuse: true},
		{section: "filter", name: "clean"},
		{section: "filter", name: "smudge"},
		{section: "filter", name: "process"},
		{section: "filter", name: "required", value: "false"},
		{section: "interactive", name: "difffilter", value: identity},
		{section: "protocol", name: "allow", value: "never"},
		{section: "http", name: "cookiefile"},
		{section: "http", name: "savecookies", value: "false"}, // writes the file above
		{section: "remote", name: "uploadpack", refuse: true},  // the first value counts, not the last
		{section: "remote", name: "receivepack", refuse: true},
		{section: "remote", name: "vcs", refuse: true},
		{section: "pull", name: "twohead", refuse: true}, // a strategy is a program
		{section: "pull", name: "octopus", refuse: true},
		{section: "fetch", name: "bundleuri", refuse: true}, // a line of it is an order to a helper of git's
		{section: "bundle", name: "uri", refuse: true},
		{section: "http", name: "sslkey", refuse: true}, // a token's key: a module is loaded for it
		{section: "http", name: "sslcert", refuse: true},
		{section: "http", name: "sslkeytype", refuse: true},
		{section: "http", name: "sslcerttype", refuse: true},
		{section: "submodule", name: "update", value: "checkout"},
		{section: "trailer", name: "command", value: "true"},
		{section: "trailer", name: "cmd", value: "true"},
		{section: "tar", name: "command", value: fails},
		{section: "browser", name: "*", value: fails},
		{section: "man", name: "*", value: fails},
		{section: "web", name: "browser", value: fails},
		{section: "help", name: "browser", value: fails},
		{section: "help", name: "format", value: "man"},
		{section: "instaweb", name: "*", value: fails},
		{section: "sendemail", name: "tocmd", value: "true"}, // an empty one would run the mail
		{section: "sendemail", name: "cccmd", value: "true"},
		{section: "sendemail", name: "headercmd", value: "true"},
		{section: "sendemail", name: "sendmailcmd", value: fails},
		{section: "sendemail", name: "smtpserver", refuse: true},
		{section: "sendemail", name: "smtpserveroption", refuse: true}, // all count
		{section: "gc", name: "recentobjectshook", refuse: true},       // all are run
		{section: "gc", name: "repackfilterto", refuse: true},          // a place to write
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
		{"core.protectHFS", "true"},
		{"core.protectNTFS", "true"},
		// An alternate is asked for its references in its own repository,
		// with its own configuration alone.
		{"core.alternateRefsCommand", "true"},
		{"protocol.ext.allow", "never"},
		{"submodule.recurse", "false"},
		{"fetch.recurseSubmodules", "false"},
		{"push.recurseSubmodules", "no"},
		{"status.submoduleSummary", "false"},
		{"log.showSignature", "false"},
		{"safe.bareRepository", "explicit"},
		{"maintenance.auto", "false"},
		{"gc.auto", "0"},
	}
}

// unlessOwn is set where the operator's own configuration says nothing. What
// speaks with a repository on this machine runs that one's hooks, with its
// configuration alone; any other way of transport may run a program.
func unlessOwn() []setting {
	return []setting{
		{"protocol.allow", "never"},
		{"protocol.file.allow", "never"},
		{"protocol.git.allow", "never"},
	}
}

// setting is one line of configuration.
type setting struct{ key, value string }

// parts splits a key. Section and name have no case; a subsection, which may
// hold dots, has.
func parts(key string) (section, name string) {
	section, rest, _ := strings.Cut(key, ".")
	return strings.ToLower(section), strings.ToLower(rest[strings.LastIndexByte(rest, '.')+1:])
}

// remedyFor answers what is to be done about a key, and whether anything is.
func remedyFor(key string) (remedy, bool) {
	section, name := parts(key)
	for _, r := range remedies() {
		if section == r.section && (r.name == "*" || name == r.name) {
			return r, true
		}
	}
	return remedy{}, false
}
