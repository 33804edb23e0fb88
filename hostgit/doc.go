// Package hostgit runs the host's git on a tree that somebody else wrote, so
// that nothing which the tree says is executed.
//
// A repository's configuration names programs: hooks, a file system monitor,
// filters, external diffs, pagers, aliases, credential helpers. pinfold keeps
// the configuration of repositories that it knows of from being written from
// inside, but a command may make new ones, and an index or a commit can hold a
// gitlink to one, which git then looks into with a git of its own.
//
// What git could read is listed first, as data: the configuration of the
// repository, its worktrees and submodules, and of every repository that stands
// in the work tree, with what they include, whatever the condition. A key that
// is known to be harmless passes. One that names a program is overridden by what
// the operator's own configuration says, or by something harmless, in the
// environment, which git hands on to the ones it starts itself (git-config(1),
// GIT_CONFIG_COUNT). What can't be overridden, or isn't known, is refused.
//
// That environment doesn't reach everywhere: git leaves it out where it starts
// something in another repository that it speaks with on this machine
// (git-upload-pack, git-receive-pack, the references of an alternate). So those
// ways are closed. Nor does it help where git itself may write what the next
// git reads: an include in the work tree, a git directory that a commit brings,
// the list of things to do of a rebase. Those are refused.
//
// Whoever writes there meanwhile can undo all of this: [Command].Places says
// where nobody may.
package hostgit
