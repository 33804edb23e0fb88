package guard

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// hostConfigs reads the user's and the machine's configuration, as git-config(1)
// lists them, and what the caller's variables add to it.
func (r *repositories) hostConfigs() error {
	files := []string{"/etc/gitconfig"}
	for _, home := range r.hostHomes() {
		files = append(files, join(home, ".gitconfig"), join(home, ".config/git/config"))
	}
	if xdg := r.request.Variable("XDG_CONFIG_HOME"); path.IsAbs(xdg) {
		files = append(files, path.Join(xdg, "git/config"))
	}
	for _, v := range []string{"GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"} {
		if f := r.fromCaller(r.request.Variable(v)); f != "" {
			files = append(files, f)
		}
	}
	for _, f := range files {
		if err := r.hostConfig(f, 0); err != nil {
			return err
		}
	}
	if err := r.take(configOfEnv(r.request.Env), "", 0); err != nil {
		return err
	}
	if t := r.fromCaller(r.request.Variable("GIT_TEMPLATE_DIR")); t != "" {
		r.templates = append(r.templates, t)
	}
	if err := r.sharedHooks(); err != nil {
		return err
	}
	return r.newRepositories()
}

// fromCaller is a path of a variable, which starts at the caller's directory;
// "" for none.
func (g *gate) fromCaller(p string) string {
	switch {
	case strings.ContainsRune(p, 0):
		return ""
	case p == "" || path.IsAbs(p):
		return p
	case g.request.CallerDir == "":
		return ""
	}
	return path.Join(g.request.CallerDir, p)
}

// hostConfig reads one file. One that this user may not read is none to git
// either: ~/.gitconfig may be root's. A descriptor of the caller's, as
// GIT_CONFIG_GLOBAL=<(echo) names one, is another process's no more.
func (r *repositories) hostConfig(file string, depth int) error {
	c, ok, err := r.readConfig(file)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errMagic) {
		return nil
	}
	if err != nil || !ok || depth > maxIncludes {
		return err
	}
	return r.take(c, file, depth)
}

// take notes what configuration from a file names, "" for variables: there git
// refuses what is relative.
func (r *repositories) take(c gitConfig, file string, depth int) error {
	r.shared = append(r.shared, c.hooksPath...)
	r.templates = append(r.templates, c.templates...)
	for _, i := range c.includes {
		p := r.fromHome(i)
		switch {
		case path.IsAbs(p):
		case file == "":
			continue
		default:
			p = parent(file) + "/" + p
		}
		if err := r.keepNamed(p, File); err != nil {
			return err
		}
		if err := r.hostConfig(p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// fromHome expands a leading "~/" as git does.
func (r *repositories) fromHome(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		for _, home := range r.hostHomes() {
			return join(home, rest)
		}
	}
	return p
}

// sharedHooks guards the hooks that every repository has in common, also where
// none is granted.
func (r *repositories) sharedHooks() error {
	for _, h := range r.shared {
		p := r.fromHome(h)
		if !path.IsAbs(p) {
			continue
		}
		at, _, err := r.standsAt(p)
		if err != nil {
			return err
		}
		if r.holdsHome(at) {
			continue // a mistake
		}
		if err := r.keepHooks(p, at, Dir); err != nil {
			return err
		}
	}
	return nil
}

// newRepositories guards what git copies into each repository that it makes,
// git-init(1), "TEMPLATE DIRECTORY": hooks, which run at the end of a clone
// already, and configuration.
func (r *repositories) newRepositories() error {
	for _, t := range r.templates {
		p := r.fromHome(t)
		if !path.IsAbs(p) {
			continue // it starts at the directory of a later git
		}
		for _, name := range r.names.GitDir {
			at, _, err := r.standsAt(join(p, name))
			if err != nil {
				return err
			}
			if err := r.keepHooks(join(p, name), at, usualOf(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdsHome reports whether a canonical path is or holds a home.
func (g *gate) holdsHome(p string) bool {
	return slices.ContainsFunc(g.sessionHomes(), func(home string) bool { return within(home, p) })
}

// configOfEnv is the configuration in the variables of git(1):
// GIT_CONFIG_COUNT with its keys and values, and GIT_CONFIG_PARAMETERS, where
// git hands on what its -c said.
func configOfEnv(env []string) gitConfig {
	var c gitConfig
	count, ok := lookupEnv(env, "GIT_CONFIG_COUNT")
	if n, err := strconv.Atoi(count); ok && err == nil {
		vars := splitEnv(env)
		for i := range n {
			key, there := vars["GIT_CONFIG_KEY_"+strconv.Itoa(i)]
			if !there {
				break // git ends there too
			}
			c.setKey(key, vars["GIT_CONFIG_VALUE_"+strconv.Itoa(i)])
		}
	}
	parameters, _ := lookupEnv(env, "GIT_CONFIG_PARAMETERS")
	c.setParameters(parameters)
	return c
}

// setKey takes a whole key: section, perhaps a subsection, and name.
func (c *gitConfig) setKey(key, value string) {
	section, _, _ := strings.Cut(key, ".")
	c.set(strings.ToLower(section), strings.ToLower(key[strings.LastIndexByte(key, '.')+1:]), value)
}

// setParameters reads 'key'='value' and the older 'key=value', quoted as for a
// shell, with blanks between them.
func (c *gitConfig) setParameters(s string) {
	var word strings.Builder
	equals, quoted := -1, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			quoted = !quoted
			continue
		case quoted:
		case s[i] == ' ':
			c.setParameter(word.String(), equals)
			word.Reset()
			equals = -1
			continue
		case s[i] == '\\' && i+1 < len(s):
			i++
		case s[i] == '=' && equals < 0:
			equals = word.Len()
		}
		word.WriteByte(s[i])
	}
	if !quoted {
		c.setParameter(word.String(), equals)
	}
}

// setParameter takes one, in which a sign stood outside of the quotes, or -1.
func (c *gitConfig) setParameter(word string, equals int) {
	if equals < 0 {
		equals = strings.IndexByte(word, '=')
	}
	if equals > 0 {
		c.setKey(word[:equals], word[equals+1:])
	}
}
