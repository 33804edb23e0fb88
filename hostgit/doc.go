// Package hostgit runs the host's git on a tree that somebody else wrote, so
// that nothing which the tree says is executed.
//
// A repository's configuration names programs: hooks, a file system monitor,
// filters, external diffs, pagers, aliases, credential helpers. pinfold keeps
// the configuration of repositories that it knows of from being written from
// inside, but a command may make new ones, and an index can hold a gitlink to
// one, which git status then looks into with a git of its own.
//
// What git would read is listed first, as data, in the repository and in every
// repository that its index leads to. Each key that names a program is then
// overridden by what the operator's own configuration says, or by something
// harmless, in the environment, which git hands on to the ones it starts
// itself (git-config(1), GIT_CONFIG_COUNT). What can't be overridden is
// refused.
package hostgit
