package hostgit

import (
	"fmt"
	"slices"
	"strings"
)

// todoWords are what git does by itself. "exec" isn't among them, nor what a
// newer git may add.
const todoWords = "pick p revert edit e reword r fixup f squash s drop d noop label l reset t merge m break b update-ref u"

// strategies are git's own: another one is a program's name.
const strategies = "ort recursive resolve octopus ours subtree"

// isStrategy reports whether each of some words is a strategy of git's own.
func isStrategy(value string) bool {
	words := strings.Fields(value)
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(strings.Fields(strategies), w) })
}

// unknownWork answers why a list of things to do isn't gone on with, or "".
func unknownWork(todo string) string {
	for line := range strings.Lines(todo) {
		word, _, _ := strings.Cut(strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t"), " ")
		word, _, _ = strings.Cut(word, "\t")
		if word == "" || strings.HasPrefix(word, "#") || slices.Contains(strings.Fields(todoWords), word) {
			continue
		}
		return fmt.Sprintf("its list of things to do holds %q", strings.TrimSpace(line))
	}
	return ""
}

// choices are the options of a cherry-pick or revert: see sequencer.c of git.
const choices = "no-commit edit allow-empty allow-empty-message drop-redundant-commits keep-redundant-commits signoff record-origin " +
	"allow-ff mainline strategy gpg-sign strategy-option allow-rerere-auto default-msg-cleanup"

// options judges the options of a cherry-pick or revert, which are a file of
// configuration.
func (p *preparation) options(path string) (why string, err error) {
	entries, err := p.entries([]string{path})
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.key, "options.")
		switch {
		case e.file != path, !ok, !slices.Contains(strings.Fields(choices), name),
			name == "strategy" && !isStrategy(e.value),
			name == "strategy-option" && !isStrategyOption(e.value):
			return fmt.Sprintf("it sets %s to %q", e.key, e.value), err
		}
	}
	return "", err
}

// unknownOption answers which of the words that git has quoted isn't known.
func unknownOption(text string, known func(string) bool) string {
	words, ok := unquoted(text)
	if !ok {
		return fmt.Sprintf("it holds %q", strings.TrimSpace(text))
	}
	for _, w := range words {
		if !known(w) {
			return fmt.Sprintf("it holds the option %q", w)
		}
	}
	return ""
}

// unquoted parts what git quotes as a shell's words: each is in single
// quotes, but for "'" and "!", which stand behind a backslash.
func unquoted(text string) (words []string, ok bool) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeft(text, " \t\r\n") {
		var word strings.Builder
		for text != "" && !strings.ContainsAny(text[:1], " \t\r\n") {
			switch {
			case text[0] == '\'':
				part, rest, closed := strings.Cut(text[1:], "'")
				if !closed {
					return nil, false
				}
				word.WriteString(part)
				text = rest
			case len(text) > 1 && text[0] == '\\' && (text[1] == '\'' || text[1] == '!'):
				word.WriteByte(text[1])
				text = text[2:]
			default:
				return nil, false
			}
		}
		words = append(words, word.String())
	}
	return words, true
}

// isStrategyOption knows the options of git's own strategies: git hands
// others on to programs of its own, which have options that write files.
func isStrategyOption(word string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(word), "--"), "=")
	return slices.Contains([]string{
		"ours", "theirs", "subtree", "patience", "histogram", "diff-algorithm", "ignore-space-change", "ignore-all-space",
		"ignore-space-at-eol", "ignore-cr-at-eol", "renormalize", "no-renormalize", "no-renames", "find-renames", "rename-threshold", "minimal",
	}, name)
}

// isApplyOption knows what git am hands on to git apply.
func isApplyOption(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	if slices.Contains([]string{"--whitespace", "--ignore-space-change", "--ignore-whitespace", "--directory", "--exclude", "--include", "--reject"}, name) {
		return true
	}
	letter := strings.HasPrefix(word, "-p") || strings.HasPrefix(word, "-C")
	return letter && strings.Trim(word[2:], "0123456789") == ""
}
