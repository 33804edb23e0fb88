package policy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Parse reads a policy document: YAML if file ends in .yaml or .yml, else
// JSON with comments and trailing commas. file names it in messages, and its
// folder is where "./" starts; "" where there is none. It reads no other
// file, so a document that extends one must come through [Load]; presets are
// built in. An error is [ParseErrors].
func Parse(data []byte, file string) (*Policy, error) {
	l := newLoader(func(string) ([]byte, error) {
		return nil, errors.New("only a policy that is itself a file can extend one")
	})
	base := ""
	if file != "" {
		base = filepath.Dir(file)
	}
	l.document(data, file, base, nil)
	return l.finish()
}

// Load reads a policy file and what it extends. An error is [ParseErrors].
func Load(path string) (*Policy, error) {
	l := newLoader(readFile)
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, ParseErrors{fileError(path, err)}
	}
	data, err := l.readSource(absolute)
	if err != nil {
		return nil, ParseErrors{fileError(path, err)}
	}
	l.document(data, path, filepath.Dir(absolute), []string{absolute})
	return l.finish()
}

// Files are the files that a policy is made of, those included that can't be
// read or aren't there: by writing one of them its policy would be changed.
func Files(path string) []string {
	var files []string
	l := newLoader(func(path string) ([]byte, error) {
		files = append(files, path)
		return readFile(path)
	})
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	if data, err := l.readSource(absolute); err == nil {
		l.document(data, path, filepath.Dir(absolute), []string{absolute})
	}
	return files
}

func fileError(path string, err error) *ParseError {
	e := &ParseError{At: Position{File: path}, Msg: err.Error(), Err: err}
	var at *fs.PathError
	if errors.As(err, &at) {
		e.Msg = at.Err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Msg = "there is no such file"
	}
	return e
}

// readFile reads a document. One byte more than may be tells one that is too
// large.
func readFile(path string) ([]byte, error) {
	return ReadInput(path, maxDocument+int64(len(utf8BOM))+1)
}

// loader reads a document and those it extends into one policy: first what it
// extends, in order, then itself, so that lists are joined in that order and
// the last document that sets a single value wins.
type loader struct {
	policy    *Policy
	read      func(path string) ([]byte, error)
	documents int
	errs      ParseErrors
}

func newLoader(read func(string) ([]byte, error)) *loader {
	return &loader{policy: &Policy{Given: map[string]Position{}}, read: read}
}

func (l *loader) readSource(path string) ([]byte, error) {
	data, err := l.read(path)
	if err != nil {
		return nil, err
	}
	l.policy.Sources = append(l.policy.Sources, Source{File: path, SHA256: sha256.Sum256(data)})
	return data, nil
}

// document reads one document into the policy. stack is the files being
// read, outermost first.
func (l *loader) document(data []byte, file, base string, stack []string) {
	tree, err := parseTree(data, file)
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	for i, item := range extendsItems(tree) {
		l.extend(item, fmt.Sprintf("extends[%d]", i), base, stack)
	}
	l.policy.Extends = nil // those of documents below are merged already
	d := &decoder{base: base, given: l.policy.Given}
	object(policyFields(l.policy), nil).read(d, tree, "")
	l.errs = append(l.errs, d.errs...)
}

// finish looks at the merged policy as a whole.
func (l *loader) finish() (*Policy, error) {
	p := l.policy
	if len(l.errs) == 0 {
		l.errs = append(l.errs, contradictions(p)...)
	}
	if len(l.errs) > maxErrors {
		l.errs = l.errs[:maxErrors]
	}
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	p.Version = 1
	return p, nil
}

// contradictions are pairs of fields that can't both be meant.
func contradictions(p *Policy) []*ParseError {
	var errs []*ParseError
	for _, name := range p.Env.Secrets {
		if _, set := p.Env.Set[name]; set {
			msg := fmt.Sprintf("%q is set in env.set too, where every plan shows it", clip(name))
			errs = append(errs, &ParseError{At: p.Given["env.secrets"], Field: "env.secrets", Msg: msg, beyondSchema: true})
		}
	}
	return errs
}
