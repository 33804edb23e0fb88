package hostgit

import (
	"fmt"
	"slices"
	"strings"

	"pinfold/policy"
)

// valued are git's own options that take the next argument.
var valued = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--exec-path", "--attr-source"} //nolint:gochecknoglobals // a table

// split parts git's own options from the command and its arguments.
func split(args []string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[:i], args[i:]
		}
		if slices.Contains(valued, args[i]) {
			i++
		}
	}
	return args, nil
}

// located are those of git's own options that say which repository is meant,
// and what is configured.
func located(own []string) []string {
	wanted := []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--bare", "--config-env"}
	var out []string
	for i := 0; i < len(own); i++ {
		name, _, _ := strings.Cut(own[i], "=")
		named := slices.Contains(wanted, name)
		if named {
			out = append(out, own[i])
		}
		if slices.Contains(valued, own[i]) {
			if i++; named && i < len(own) {
				out = append(out, own[i])
			}
		}
	}
	return out
}

// plainly has the commands that show differences leave external programs out,
// as far as they have an option for it.
func plainly(rest []string) []string {
	if len(rest) == 0 || !slices.Contains([]string{"diff", "log", "show", "whatchanged", "format-patch"}, rest[0]) {
		return rest
	}
	return append([]string{rest[0], "--no-ext-diff"}, rest[1:]...)
}

// others are commands of git's that obey a repository in ways of their own, or
// serve others from it.
const others = "gui citool instaweb daemon http-backend shell cvsserver svn p4 archimport cvsimport cvsexportcommit for-each-repo " +
	"remote-ext remote-fd upload-pack receive-pack upload-archive"

// besides are programs of others whose settings are known too.
const besides = "lfs"

// command judges what git is to do.
func (p *preparation) command(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	name := rest[0]
	list, err := p.run("/", p.env, "--list-cmds=main")
	if err != nil {
		return refusal(policy.Unavailable, "git_old", "git", fmt.Sprintf("cannot list git's commands: %v", err), "install git 2.31 or newer")
	}
	p.commands = append(strings.Fields(string(list)), strings.Fields(besides)...)
	if slices.Contains(p.commands, name) {
		p.expanded = rest
	} else if words := p.alias(rest, 0); words != nil {
		p.expanded = words
	} else {
		return p.notOurs(name)
	}
	if slices.Contains(strings.Fields(others), p.expanded[0]) {
		return refusal(policy.Denied, "git_command", p.expanded[0],
			fmt.Sprintf("cannot run git %s: it obeys a repository in ways of its own, or serves others from it", p.expanded[0]), "run it inside: pinfold wrap -- git "+p.expanded[0])
	}
	if name := p.expanded[0]; name == "submodule" || name == "bisect" {
		if err := p.isNew(name); err != nil {
			return err
		}
	}
	return p.inSubmodules(p.expanded)
}

// notOurs refuses what is neither git's command nor the operator's alias.
func (p *preparation) notOurs(name string) error {
	if p.aliased(name) {
		return refusal(policy.Denied, "git_alias", name,
			fmt.Sprintf("cannot run git %s: it is an alias of the repository's own", name), "use git's own command, or define the alias yourself")
	}
	return refusal(policy.Denied, "git_command", name,
		fmt.Sprintf("cannot run git %s: it isn't a command of git's own, so what it obeys isn't known", name), "run it inside: pinfold wrap -- git "+quote(name))
}

// maxAliases is how far an alias of an alias is followed.
const maxAliases = 10

// alias expands an alias of the operator's: a shell's begins with "!". Git
// takes an alias apart as a command line, with options of its own in front.
func (p *preparation) alias(rest []string, depth int) []string {
	value, ok := p.operators["alias."+strings.ToLower(rest[0])]
	if !ok {
		value, ok = p.operators["alias."+rest[0]+".command"]
	}
	if !ok || depth > maxAliases {
		return nil
	}
	if strings.HasPrefix(value, "!") {
		return append([]string{value}, rest[1:]...)
	}
	words, ok := unquoted(value)
	if _, words = split(words); !ok || len(words) == 0 {
		return nil
	}
	words = append(words, rest[1:]...)
	if slices.Contains(p.commands, words[0]) {
		return words
	}
	return p.alias(words, depth+1)
}

// aliased reports whether a command would be an alias of the repository's.
func (p *preparation) aliased(command string) bool {
	return slices.ContainsFunc(p.found, func(key string) bool {
		name, ok := strings.CutPrefix(key, "alias.")
		return ok && strings.EqualFold(name, command)
	})
}

// inSubmodules refuses the form of differences that runs a git in every
// submodule that a commit names. Options may be cut short.
func (p *preparation) inSubmodules(words []string) error {
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		if len(name) >= len("--su") && strings.HasPrefix("--submodule", name) && strings.HasPrefix(value, "d") {
			return refusal(policy.Denied, "git_command", w, "cannot run git with "+w+": it runs git in whatever a commit says is a submodule", "leave it out, and run git in the submodule")
		}
	}
	return nil
}
