package hostgit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pinfold/policy"
)

// take sorts the operator's own settings from what "git config --list -z
// --show-scope --show-origin" prints: scope, file, then key, newline, value.
func (p *preparation) take(list []byte) {
	fields := bytes.Split(bytes.TrimSuffix(list, []byte{0}), []byte{0})
	for i := 0; i+2 < len(fields); i += 3 {
		key, value, _ := strings.Cut(string(fields[i+2]), "\n")
		if scope := string(fields[i]); scope == "local" || scope == "worktree" {
			continue
		}
		if file, ok := strings.CutPrefix(string(fields[i+1]), "file:"); ok {
			p.operatorsFiles[file] = key
		}
		p.operators[key] = value
		if section, name := parts(key); section == "credential" && name == "helper" {
			p.helpers = append(p.helpers, setting{key, value})
		}
	}
}

// foreign refuses configuration of the operator's that lies in a work tree,
// where the same command may have written it. A home, and what holds it, isn't
// one in this respect.
func (p *preparation) foreign() error {
	home := resolved(lookup(p.env, "HOME"))
	for file, key := range p.operatorsFiles {
		file = resolved(join(p.dir, file))
		for _, top := range slices.Concat(p.tops, p.trees) {
			if beneath(file, top) && !beneath(home, top) {
				return refusal(policy.Denied, "git_config", key,
					fmt.Sprintf("cannot run git: your own configuration reads %q, which lies in the work tree %q, where a command may have written it", file, top),
					"keep that file elsewhere")
			}
		}
	}
	return nil
}

// standIn is what stands in for a repository's value.
func (p *preparation) standIn(r remedy, key string) string {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return r.value
	}
	switch section, name := parts(key); {
	case section == "core" && name == "editor":
		return first(lookup(p.env, "VISUAL"), lookup(p.env, "EDITOR"))
	case section == "sequence":
		return first(lookup(p.env, "GIT_EDITOR"), p.operators["core.editor"], lookup(p.env, "VISUAL"), lookup(p.env, "EDITOR"))
	case section == "core" && name == "pager":
		return first(lookup(p.env, "PAGER"))
	case section == "core" && name == "sshcommand":
		return first(quote(lookup(p.env, "GIT_SSH")))
	case section == "gpg" && name == "program":
		return gpgProgram(key)
	}
	return r.value
}

// meant is the operator's own value, in a way that leaves nothing of the
// repository's: that a command's output is paged says nothing of the pager, so
// that one named before goes on to count.
func (p *preparation) meant(r remedy, value string) string {
	number, err := strconv.ParseInt(strings.TrimRight(strings.ToLower(value), "kmg"), 0, 64)
	isTrue := slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(value)) || err == nil && number != 0
	if r.section != "pager" || !isTrue {
		return value
	}
	for _, pager := range []string{p.operators["core.pager"], lookup(p.env, "PAGER")} {
		if pager != "" {
			return pager
		}
	}
	return "less"
}

// gpgProgram is what git would run for a format of signatures.
func gpgProgram(key string) string {
	switch strings.ToLower(key) {
	case "gpg.ssh.program":
		return "ssh-keygen"
	case "gpg.x509.program":
		return "gpgsm"
	}
	return "gpg"
}
