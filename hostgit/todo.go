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

// unquoted parts text into words as git does: quotes of both kinds, and a
// backslash that takes the next character as it is, but for single quotes.
func unquoted(text string) (words []string, ok bool) {
	var word strings.Builder
	quote, within := byte(0), false
	end := func() {
		if within {
			words = append(words, word.String())
		}
		word.Reset()
		within = false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			end()
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			if i++; i == len(text) {
				return nil, false
			}
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
		within = true
	}
	end()
	return words, quote == 0
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
