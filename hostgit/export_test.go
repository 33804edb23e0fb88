package hostgit

// Stands answers what stands in for each key that a repository may set, where
// the operator sets none, by an example of it.
func Stands() map[string]string {
	out := map[string]string{}
	p := &preparation{}
	for _, r := range remedies() {
		name := r.name
		if name == "*" {
			name = "any"
		}
		key := r.section + ".sub." + name
		switch r.section {
		case "core", "sequence", "ssh", "rebase", "interactive", "gc", "maintenance", "init", "imap", "help", "pager", "alias":
			key = r.section + "." + name
		}
		if !r.refuse && r.section != "credential" {
			out[key] = p.standIn(r, key)
		}
	}
	return out
}
