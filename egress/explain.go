package egress

import (
	"fmt"
	"slices"
)

// Explain says in a few lines what Decide says and why, for people.
func (d *Decider) Explain(t Target) string {
	v := d.Decide(t)
	own := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, v.Name)
	switch {
	case own && slices.Contains(d.hostPorts, t.Port):
		return fmt.Sprintf("%s: allowed: network.host_ports lists %d, the host's own port", printable(t.String()), t.Port)
	case v.Allowed && own:
		return fmt.Sprintf("%s: allowed: %s", printable(t.String()), v.Why) + d.budgetLines(t, v) + fmt.Sprintf(
			"\nnote: only for a program that asks the proxy, which none does for its own loopback: add %d to network.host_ports for the host's port", t.Port)
	case v.Allowed:
		return fmt.Sprintf("%s: allowed: %s", printable(t.String()), v.Why) + d.budgetLines(t, v)
	}
	text := fmt.Sprintf("%s: denied (%s): %s", printable(t.String()), v.Code, v.Why)
	switch {
	case own && v.Rule == nil:
		text += fmt.Sprintf("\nhint: add %d to network.host_ports: the command's own loopback isn't the host's", t.Port)
	case v.Hint != "":
		text += fmt.Sprintf("\nhint: add %q to network.allow", v.Hint)
	case v.Rule != nil:
		text += fmt.Sprintf("\nhint: take %q out of network.deny", v.Rule.Text)
	}
	return text
}
