package plan

// layerSpaces are the layers that are namespaces, with their names in
// /proc/PID/ns.
var layerSpaces = map[string]string{ //nolint:gochecknoglobals // a table
	"userns": "user", "mountns": "mnt", "pidns": "pid", "netns": "net", "ipcns": "ipc", "utsns": "uts", "cgroupns": "cgroup",
}

// OwnSpaces are the namespaces that the plan says are the launch's own, by
// their names in /proc/PID/ns.
func (p *Plan) OwnSpaces() map[string]bool {
	own := map[string]bool{}
	for _, l := range p.Layers {
		if space := layerSpaces[l.Name]; space != "" && l.State == "on" {
			own[space] = true
		}
	}
	return own
}
