package guard

import "strings"

// gitConfig is what the guard reads of a git configuration file: which other
// files and directories git takes code or configuration from.
type gitConfig struct {
	hooksPath []string
	includes  []string // include.path and includeIf.*.path
	templates []string // init.templateDir
	worktree  string   // core.worktree
}

// parseGitConfig reads the format of git-config(1), section "Configuration
// file". It is lenient: what git would refuse to read it reads as far as it
// goes, since a file that is broken now may be whole later.
func parseGitConfig(text []byte) gitConfig {
	var c gitConfig
	section := ""
	for line := range configLines(string(text)) {
		line = strings.TrimLeft(line, " \t\r\v\f")
		if strings.HasPrefix(line, "[") {
			name, rest, found := strings.Cut(line[1:], "]")
			if !found {
				continue
			}
			section = sectionName(name)
			line = strings.TrimLeft(rest, " \t")
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			continue // a comment, or a name without a value: true
		}
		c.set(section, strings.ToLower(strings.TrimSpace(key)), configValue(value))
	}
	return c
}

func (c *gitConfig) set(section, key, value string) {
	switch {
	case value == "":
	case section == "core" && key == "hookspath":
		c.hooksPath = append(c.hooksPath, value)
	case section == "init" && key == "templatedir":
		c.templates = append(c.templates, value)
	case section == "core" && key == "worktree":
		c.worktree = value
	case (section == "include" || section == "includeif") && key == "path":
		c.includes = append(c.includes, value)
	}
}

// sectionName is the section of a header, without its subsection.
func sectionName(header string) string {
	name, _, _ := strings.Cut(strings.TrimSpace(header), " ")
	name, _, _ = strings.Cut(name, "\t")
	name, _, _ = strings.Cut(name, `"`)
	return strings.ToLower(name)
}

// configLines are the lines, those that end in a backslash joined to the
// next.
func configLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var whole strings.Builder
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSuffix(line, "\r")
			if body, more := strings.CutSuffix(line, `\`); more && !strings.HasSuffix(body, `\`) {
				whole.WriteString(body)
				continue
			}
			whole.WriteString(line)
			if !yield(whole.String()) {
				return
			}
			whole.Reset()
		}
		if whole.Len() > 0 {
			yield(whole.String())
		}
	}
}

// configValue takes the quotes, escapes and comment off a value.
func configValue(raw string) string {
	var out strings.Builder
	quoted := false
	kept := 0 // bytes that aren't trailing blanks
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(raw):
			i++
			out.WriteByte(unescape(raw[i]))
			kept = out.Len()
		case !quoted && (c == '#' || c == ';'):
			return out.String()[:kept]
		case !quoted && (c == ' ' || c == '\t'):
			if out.Len() > 0 {
				out.WriteByte(c)
			}
		default:
			out.WriteByte(c)
			kept = out.Len()
		}
		if quoted {
			kept = out.Len()
		}
	}
	return out.String()[:kept]
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	}
	return c
}
