package plan

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"pinfold/guard"
	"pinfold/policy"
)

// Text writes the plan for people: every mount with the rule that made it,
// what may leave, the layers that hold the boundary, and the digest. What the
// policy or the file system could have smuggled in for a terminal is quoted.
func (p *Plan) Text(w io.Writer) error {
	digest, err := p.Digest()
	if err != nil {
		return err
	}
	var s strings.Builder
	p.head(&s, digest)
	p.mountTable(&s)
	list(&s, "hosts", p.Hosts, "none: nothing can leave")
	list(&s, "denied hosts", p.DenyHosts, "")
	list(&s, "network terms", p.Terms, "")
	list(&s, "unix sockets", p.Sockets, "none")
	list(&s, "environment", []string{strings.Join(p.EnvNames, " ")}, "empty")
	list(&s, "withheld from the environment", []string{strings.Join(p.Withheld, " ")}, "")
	list(&s, "limits", limitLines(p.Limits), "")
	p.layerTable(&s)
	list(&s, "required", p.Require, "")
	sentences(&s, "notes", p.Notes)
	_, err = io.WriteString(w, s.String())
	return err
}

func (p *Plan) head(w io.Writer, digest string) {
	t := table(w)
	words := make([]string, 0, len(p.Command))
	for _, c := range p.Command {
		words = append(words, word(c))
	}
	fmt.Fprintf(t, "plan\t%s\n", digest)
	fmt.Fprintf(t, "command\t%s\n", strings.Join(words, " "))
	fmt.Fprintf(t, "in\t%s\n", clean(p.Dir))
	fmt.Fprintf(t, "by\t%s %s (%s)\n", clean(p.Backend), clean(p.Tool.Version), clean(p.Tool.Path))
	if p.Filter != (Filter{}) {
		fmt.Fprintf(t, "filter\tseccomp %s, %s, sha256:%s\n", clean(p.Filter.Mode), clean(p.Filter.Arch), clean(p.Filter.SHA256))
	}
	fmt.Fprintf(t, "a stop sends\t%s\n", clean(p.Signals.Stop))
	t.Flush() //nolint:errcheck // to memory
}

func (p *Plan) mountTable(w io.Writer) {
	fmt.Fprintf(w, "\nmounts (%d)\n", len(p.Mounts))
	t := table(w)
	for _, m := range p.Mounts {
		path := clean(m.Path)
		if m.Source != "" {
			path += " -> " + clean(m.Source)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", m.Access, m.Kind, path, ruleText(m.Rule))
	}
	t.Flush() //nolint:errcheck // to memory
}

func (p *Plan) layerTable(w io.Writer) {
	fmt.Fprintf(w, "\nlayers\n")
	t := table(w)
	for _, l := range p.Layers {
		fmt.Fprintf(t, "  %s\t%s\n", clean(l.Name), clean(l.State))
	}
	t.Flush() //nolint:errcheck // to memory
}

// list writes a heading and its lines, or what their absence means; nothing
// at all when that is "".
func list(w io.Writer, heading string, lines []string, none string) {
	if strings.Join(lines, "") == "" {
		lines = []string{none}
	}
	if strings.Join(lines, "") == "" {
		return
	}
	fmt.Fprintf(w, "\n%s\n", heading)
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", clean(l))
	}
}

// sentences writes a heading and pinfold's own words, whose names are quoted
// already: what stands in them is there to be read and copied.
func sentences(w io.Writer, heading string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", heading)
	}
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", policy.Printable(l))
	}
}

func ruleText(r guard.Rule) string {
	return fmt.Sprintf("%s (%s, %s)", clean(r.Text), clean(string(r.Class)), clean(r.Source))
}

func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

// word is one argument, told apart from its neighbours.
func word(s string) string {
	if strings.ContainsAny(s, " ") {
		return strconv.Quote(s)
	}
	return clean(s)
}

// clean quotes what isn't plain printable text.
func clean(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` || s == "" {
		return quoted
	}
	return s
}

func limitLines(limits []Limit) []string {
	var lines []string
	for _, l := range limits {
		lines = append(lines, l.Name+" "+l.Value)
	}
	return lines
}
