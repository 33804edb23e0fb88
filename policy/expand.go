package policy

import (
	"fmt"
	"path"
	"strings"
)

// Vars are what the placeholders of one launch stand for: absolute paths, ""
// where the launch has none. "~" is the home too.
type Vars struct {
	Workspace string
	Run       string
	Toolbelt  string
	Home      string
}

// PlaceholderError says that a path names something this launch hasn't got.
type PlaceholderError struct {
	Rule PathRule
	// Name is the placeholder as written: "{toolbelt}", "~".
	Name string
}

// Error names the path and the placeholder.
func (e *PlaceholderError) Error() string {
	return fmt.Sprintf("cannot expand %q: this launch has no %s", e.Rule.Text, e.Name)
}

// Expand is the absolute, clean path that a rule means for one launch. It
// looks at nothing: links are for package guard to resolve. A placeholder
// without a value is a [*PlaceholderError], whether the rule is optional or
// not.
func Expand(rule PathRule, vars Vars) (string, error) {
	if rule.Literal {
		if err := checkLiteral(rule.Text); err != nil {
			return "", expandError(rule, err)
		}
		return path.Clean(rule.Text), nil
	}
	head, tail, err := splitPath(rule.Text)
	if err != nil {
		return "", expandError(rule, err)
	}
	root, set := vars.root(head, rule.Base)
	if !set {
		return "", &PlaceholderError{Rule: rule, Name: head}
	}
	if !strings.HasPrefix(root, "/") || strings.ContainsRune(root, 0) {
		return "", expandError(rule, &textError{why: fmt.Sprintf("%s is %q, no absolute path", head, root)})
	}
	return path.Join(root, tail), nil
}

func expandError(rule PathRule, err error) error {
	return fmt.Errorf("cannot expand %q: %w", clip(rule.Text), err)
}

// root is what the head of a path stands for.
func (v Vars) root(head, base string) (root string, set bool) {
	switch head {
	case "/":
		return "/", true
	case "./":
		return base, base != ""
	case "~", "{" + placeHome + "}":
		return v.Home, v.Home != ""
	case "{" + placeWorkspace + "}":
		return v.Workspace, v.Workspace != ""
	case "{" + placeRun + "}":
		return v.Run, v.Run != ""
	case "{" + placeToolbelt + "}":
		return v.Toolbelt, v.Toolbelt != ""
	}
	return "", false
}
