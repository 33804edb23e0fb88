package seatbelt

import (
	"fmt"
	"strings"

	"pinfold/policy"
)

// devices grants the few device nodes that programs need and denies every
// other, whatever the base.
func (w *writer) devices() {
	w.comment("device nodes")
	w.rule("deny", allOps, "subpath", "/dev")
	w.rule("allow", "file-read-metadata file-read-data", "literal", "/dev")
	for _, d := range readDevices {
		w.rule("allow", readOps, "literal", d)
	}
	for _, d := range readWriteDevices {
		w.rule("allow", nodeOps, "literal", d)
	}
	w.comment("standard streams by name")
	w.rule("allow", deviceOps, "subpath", "/dev/fd")
	w.comment("the command's own terminal, which the supervisor made for it; /dev/null where there is none")
	w.line("(allow " + deviceOps + ` (literal (param "` + ttyParam + `")))`)
	w.comment("pseudo-terminals that the run has made itself")
	w.line("(allow " + deviceOps + ` (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))`)
}

// ttyParam is the parameter that names the command's terminal. It is set when
// the run starts.
const ttyParam = "TTY"

// What is done with a device: the machine's are read, written and asked by
// ioctl(2), and not even root's run removes one or changes its mode, as it may
// its own terminal's.
const (
	nodeOps   = readOps + " file-write-data file-ioctl"
	deviceOps = readOps + " file-write* file-ioctl"
)

// network lets the run reach the supervisor's proxy and what is listed.
func (w *writer) network(v view, o Options) {
	if o.Proxy {
		w.comment("the supervisor's proxy")
		w.line("(allow network-outbound (remote tcp " + portToken + "))")
	}
	for _, p := range o.HostPorts {
		w.comment("network.host_ports")
		w.line(fmt.Sprintf(`(allow network-outbound (remote tcp "localhost:%d"))`, p))
	}
	for _, p := range o.Listen {
		w.comment("network.expose")
		w.line(fmt.Sprintf(`(allow network-bind network-inbound (local tcp "*:%d"))`, p))
	}
	w.comment("unix sockets can be made; which can be bound and reached is said below")
	w.line("(allow system-socket (socket-domain AF_UNIX))")
	w.comment("unix sockets: the run's own, in its own temporary directory")
	if o.Tmp != "" {
		for _, p := range spelledShort(o.Tmp) {
			w.socket("network-bind network-inbound", "local", "subpath", p)
			w.socket("network-outbound", "remote", "subpath", p)
		}
	}
	if v.unix == policy.SocketsAll {
		w.err = firstError(w.err, &policy.Refusal{
			Reason: policy.Unavailable, Code: "field_unavailable", Subject: "unix_sockets",
			Why: `cannot enforce "unix_sockets": "all" with a sandbox profile: escape sockets can't be told apart`,
			Fix: `list the sockets in "sockets"`,
		})
	}
	for _, s := range v.sockets {
		w.comment("socket: %s", s.Rule.Text)
		for _, p := range spelledShort(s.Path) {
			w.socket("network-outbound", "remote", "literal", p)
		}
		w.rule("allow", lookOps, "literal", s.Path)
	}
	if o.Trustd {
		w.comment("certificates through the system's daemon (asked for)")
		w.line(names("mach-lookup", "global-name", "com.apple.trustd.agent", "com.apple.trustd"))
	}
}

// spelledShort is a socket's path, and the one without /private that leads to
// it: public profiles name both, as if the kernel asked by what the program
// said. What isn't there under that name grants nothing.
func spelledShort(p string) []string {
	short := strings.TrimPrefix(p, "/private")
	for _, link := range []string{"/etc", "/tmp", "/var"} {
		if short != p && within(link, short) {
			return []string{p, short}
		}
	}
	return []string{p}
}

func (w *writer) socket(ops, side, filter, p string) {
	ref, err := w.params.of(p)
	w.err = firstError(w.err, err)
	w.line("(allow " + ops + " (" + side + " unix-socket (" + filter + " " + ref + ")))")
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
