package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/policy"
)

// Source is what an image is built from.
type Source struct {
	Dockerfile []byte
	// Context is the directory that COPY takes from; "" for none.
	Context string
	// name is the Dockerfile's in the context.
	name string
	// forbidden are paths of the host that no build may see.
	forbidden []string
	// trusted is the only content that may be built, where it isn't "".
	trusted string
}

// maxDockerfile bounds a Dockerfile.
const maxDockerfile = 1 << 20

// Lower makes one Dockerfile of any of container.build's three forms.
// dockerfile is the canonical path of the third's; forbidden are the
// canonical paths that must not get into a build.
func Lower(b *policy.Build, dockerfile string, forbidden []string) (Source, error) {
	switch {
	case b == nil:
		return Source{}, fmt.Errorf("internal error: nothing to build")
	case b.Base != "":
		return Source{Dockerfile: fromSteps(b.Base, b.Install), name: "Dockerfile"}, nil
	case b.DockerfileInline != "":
		return Source{Dockerfile: []byte(b.DockerfileInline), name: "Dockerfile"}, nil
	}
	text, err := readDockerfile(dockerfile)
	if err != nil {
		return Source{}, &policy.Refusal{
			Reason: policy.Denied, Code: "dockerfile_unreadable", Subject: dockerfile, Rule: "container.build.dockerfile",
			Why: fmt.Sprintf("cannot read the Dockerfile %q: %v", dockerfile, err), Fix: "name an existing file of at most 1 MiB", Err: err,
		}
	}
	return Source{Dockerfile: text, Context: filepath.Dir(dockerfile), name: filepath.Base(dockerfile), forbidden: slices.Clone(forbidden), trusted: b.Trusted}, nil
}

func readDockerfile(name string) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular() || st.Size() > maxDockerfile:
		return nil, fmt.Errorf("it is no ordinary file of at most %d bytes", maxDockerfile)
	}
	return os.ReadFile(name)
}

// fromSteps runs each step in a shell. The form of a list keeps what a step
// says from meaning anything to the builder.
func fromSteps(base string, steps []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "FROM %s\n", base)
	for _, s := range steps {
		words, err := json.Marshal([]string{"/bin/sh", "-c", s})
		if err != nil { // a string always has a form in JSON
			panic(err)
		}
		fmt.Fprintf(&b, "RUN %s\n", words)
	}
	return b.Bytes()
}

// bases are the images that a Dockerfile starts from, less those that it
// builds itself.
func bases(dockerfile []byte) ([]string, error) {
	stages := map[string]bool{"scratch": true}
	var out []string
	for _, words := range instructions(dockerfile) {
		switch strings.ToUpper(words[0]) {
		case "FROM":
			image, stage := from(words[1:])
			if image == "" || strings.Contains(image, "$") {
				return nil, fromRefusal(strings.Join(words, " "))
			}
			if !stages[strings.ToLower(image)] && !slices.Contains(out, image) {
				out = append(out, image)
			}
			stages[strings.ToLower(stage)] = true
		case "COPY":
			image := copiedFrom(words[1:])
			if strings.Contains(image, "$") {
				return nil, fromRefusal(strings.Join(words, " "))
			}
			if image != "" && strings.Trim(image, "0123456789") != "" && !stages[strings.ToLower(image)] && !slices.Contains(out, image) {
				out = append(out, image)
			}
		}
	}
	return out, nil
}

func fromRefusal(line string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "base_unclear", Subject: line, Rule: "container.build",
		Why: fmt.Sprintf("cannot tell which image %q starts from, and pinfold lets no builder pull one", line), Fix: "name the image without a variable",
	}
}

// from reads FROM's words: flags, the image, AS and a name.
func from(words []string) (image, stage string) {
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	if len(words) > 0 {
		image = words[0]
	}
	if len(words) > 2 && strings.EqualFold(words[1], "as") {
		stage = words[2]
	}
	return image, stage
}

func copiedFrom(words []string) string {
	for _, w := range words {
		if image, ok := strings.CutPrefix(w, "--from="); ok {
			return image
		}
	}
	return ""
}

// instructions are a Dockerfile's, word by word: comments left out, lines
// that a backslash continues joined. A heredoc's lines would be read as
// instructions, which at worst asks for an image too many.
func instructions(dockerfile []byte) [][]string {
	var out [][]string
	line := ""
	for part := range strings.Lines(string(dockerfile)) {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "#") || part == "" {
			continue
		}
		if rest, more := strings.CutSuffix(part, "\\"); more {
			line += rest + " "
			continue
		}
		if words := strings.Fields(line + part); len(words) > 0 {
			out = append(out, words)
		}
		line = ""
	}
	if words := strings.Fields(line); len(words) > 0 {
		out = append(out, words)
	}
	return out
}
