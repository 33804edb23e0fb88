package policy

import "path/filepath"

// Needs is what a command says it must reach: a needs file. It never widens a
// grant; what lies outside of it refuses the launch. Paths are absolute, or
// start with "~" or a placeholder; none is literal or optional.
type Needs struct {
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"`
	ReadOnly []string `json:"read_only,omitempty"`
	Deny     []string `json:"deny,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	Sockets  []string `json:"sockets,omitempty"`
}

// ParseNeeds reads a needs file, as strictly as [Parse] reads a policy. An
// error is [ParseErrors].
func ParseNeeds(data []byte, file string) (Needs, error) {
	var n Needs
	if err := parseObject(data, file, needsFields(&n)); err != nil {
		return Needs{}, err
	}
	return n, nil
}

// NeedsSchema is the JSON Schema of a needs file.
func NeedsSchema() ([]byte, error) {
	return marshalSchema("pinfold needs", "What a command must reach; checked against the policy.", needsFields(&Needs{}))
}

func needsFields(n *Needs) []field {
	return []field{
		{name: "read", doc: "Paths it reads.", shape: needPaths(&n.Read)},
		{name: "write", doc: "Paths it reads and writes.", shape: needPaths(&n.Write)},
		{name: "read_only", doc: "Paths it reads and asks not to be able to write, even beneath a write grant.", shape: needPaths(&n.ReadOnly)},
		{name: "deny", doc: "Paths it asks to be kept from.", shape: needPaths(&n.Deny)},
		{name: "hosts", doc: "Hosts it reaches, as in network.allow.", shape: list(&n.Hosts, needHost)},
		{name: "sockets", doc: "Unix sockets it connects to, by path.", shape: needPaths(&n.Sockets)},
	}
}

// needPath reads a path of a needs file. Such a file is made by a program for
// one launch, so "./" has no meaning in it.
func needPath(dst *string) shape {
	return text(needPattern, func(_ *decoder, n *node, _ string) error {
		head, _, err := splitPath(n.text)
		if err == nil && head == "./" || saysRelative(err) {
			err = &textError{isRelative, "write the whole path, or start with a placeholder"}
		}
		*dst = n.text
		return err
	})
}

func needPaths(dst *[]string) shape { return list(dst, needPath) }

func needHost(dst *string) shape {
	var p HostPattern
	host := hostText(&p, hostPattern, ParseHostPattern)
	read := host.read
	host.read = func(d *decoder, n *node, at string) {
		read(d, n, at)
		*dst = n.text
	}
	return host
}

// parseObject reads a document that is one object and extends nothing.
func parseObject(data []byte, file string, fields []field) error {
	tree, err := parseTree(data, file)
	if err != nil {
		return ParseErrors{err}
	}
	d := &decoder{given: map[string]Position{}}
	if file != "" {
		d.base = filepath.Dir(file)
	}
	object(fields, nil).read(d, tree, "")
	if len(d.errs) > 0 {
		return d.errs
	}
	return nil
}
