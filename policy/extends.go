package policy

import (
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of extends: how deep documents may build on others, and how many
// there may be in all.
const (
	maxExtends   = 10
	maxDocuments = 64
)

const presetPrefix = "preset:"

//go:embed presets/*.json
var presets embed.FS

// Presets are the names that "preset:NAME" takes, sorted.
func Presets() []string {
	entries, err := presets.ReadDir("presets")
	if err != nil {
		return nil // the directory is in the binary
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".json"))
	}
	return names
}

// Preset is the text of a built-in policy document.
func Preset(name string) ([]byte, error) {
	if !slices.Contains(Presets(), name) {
		return nil, &textError{"there is no such preset", didYouMean(name, Presets())}
	}
	return presets.ReadFile("presets/" + name + ".json")
}

// extendsList checks the form of extends; [loader] has read the documents.
func extendsList(dst *[]string) shape {
	return list(dst, func(s *string) shape {
		pattern := `^(?:` + presetPrefix + `(?:` + strings.Join(Presets(), "|") + `)|/[^\x00]+|\./[^\x00]+)$`
		return text(pattern, func(_ *decoder, n *node, _ string) error {
			*s = n.text
			return checkExtends(n.text)
		})
	})
}

func checkExtends(text string) error {
	if name, ok := strings.CutPrefix(text, presetPrefix); ok {
		_, err := Preset(name)
		return err
	}
	rest, relative := strings.CutPrefix(text, "./")
	if !relative {
		rest, _ = strings.CutPrefix(text, "/")
		relative = len(rest) < len(text)
	}
	if !relative || rest == "" {
		hint := `write "./base.json" for a file beside this one, an absolute path, or a preset such as "preset:go"`
		return &textError{"it is neither a file nor a preset", hint}
	}
	return nil
}

// extendsItems are the entries of extends that can be read.
func extendsItems(tree *node) []*node {
	for _, m := range tree.members {
		if m.name == "extends" && m.value.kind == arrayNode {
			return m.value.items
		}
	}
	return nil
}

// extend reads one document that another builds on.
func (l *loader) extend(item *node, at, base string, stack []string) {
	if item.kind != stringNode || checkExtends(item.text) != nil {
		return // the list's own reader says so
	}
	fail := func(msg string, err error) {
		l.errs = append(l.errs, &ParseError{At: item.at, Field: at, Msg: fmt.Sprintf("%q: %s", clip(item.text), msg), Err: err, beyondSchema: true})
	}
	if l.documents++; l.documents > maxDocuments {
		if l.documents == maxDocuments+1 {
			fail(fmt.Sprintf("more than %d documents build on each other", maxDocuments), nil)
		}
		return
	}
	if name, ok := strings.CutPrefix(item.text, presetPrefix); ok {
		data, err := Preset(name)
		if err != nil {
			fail(err.Error(), err)
			return
		}
		l.document(data, item.text, "", append(stack, item.text))
		return
	}
	path := item.text
	if strings.HasPrefix(path, "./") {
		path = filepath.Join(base, path)
	}
	path = filepath.Clean(path)
	switch {
	case slices.Contains(stack, path):
		fail("it builds on itself", nil)
	case len(stack) > maxExtends:
		fail(fmt.Sprintf("it is more than %d documents deep", maxExtends), nil)
	default:
		data, err := l.readSource(path)
		if err != nil {
			fail(fileError(path, err).Msg, err)
			return
		}
		l.document(data, path, filepath.Dir(path), append(slices.Clone(stack), path))
	}
}
