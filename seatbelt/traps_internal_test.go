package seatbelt

import (
	"net/netip"
	"testing"

	"pinfold/seatbelt/sbpl"
)

// trap is one thing that a command tries, and whether [agent] lets it.
type trap struct {
	q    sbpl.Query
	want bool
}

// traps are shapes that public reports name as broken elsewhere, and what
// everyday programs fail without.
func traps() map[string]trap {
	at := netip.MustParseAddrPort
	return map[string]trap{
		"mv ~/.aws x":                    {sbpl.Query{Op: "file-write-unlink", Path: "/Users/ann/.aws"}, false},
		"mv .git g":                      {sbpl.Query{Op: "file-write-unlink", Path: "/Users/ann/w/.git"}, false},
		"work inside .git":               {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.git/objects/aa"}, true},
		"link a key into the workspace":  {sbpl.Query{Op: "file-link", Path: "/Users/ann/.ssh/id"}, false},
		"link a readable host file":      {sbpl.Query{Op: "file-link", Path: "/Users/ann/.bashrc"}, false},
		"link in the workspace":          {sbpl.Query{Op: "file-link", Path: "/Users/ann/w/x"}, false},
		"clone in the workspace":         {sbpl.Query{Op: "file-clone", Path: "/Users/ann/w/x"}, false},
		"move the workspace away":        {sbpl.Query{Op: "file-write-unlink", Path: "/Users/ann/w"}, false},
		"clone a denied file":            {sbpl.Query{Op: "file-clone", Path: "/Users/ann/.ssh/id"}, false},
		"run a denied file":              {sbpl.Query{Op: "process-exec", Path: "/Users/ann/.ssh/id"}, false},
		"late denied name":               {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.env"}, false},
		"list a passable denied dir":     {sbpl.Query{Op: "file-read-data", Path: "/Users/ann/w/secrets"}, false},
		"pass through it":                {sbpl.Query{Op: "file-read-metadata", Path: "/Users/ann/w/secrets"}, true},
		"/dev/null":                      {sbpl.Query{Op: "file-write-data", Path: "/dev/null", Vnode: "CHARACTER-DEVICE"}, true},
		"remove /dev/null":               {sbpl.Query{Op: "file-write-unlink", Path: "/dev/null"}, false},
		"chmod /dev/zero":                {sbpl.Query{Op: "file-write-mode", Path: "/dev/zero"}, false},
		"chmod its terminal":             {sbpl.Query{Op: "file-write-mode", Path: "/dev/ttys007"}, true},
		"ioctl on /dev/tty":              {sbpl.Query{Op: "file-ioctl", Path: "/dev/tty"}, true},
		"a pty of its own":               {sbpl.Query{Op: "file-write-data", Path: "/dev/ttys009", Extensions: []string{"com.apple.sandbox.pty"}}, true},
		"standard output by name":        {sbpl.Query{Op: "file-write-data", Path: "/dev/fd/1"}, true},
		"raw disk":                       {sbpl.Query{Op: "file-read-data", Path: "/dev/rdisk0"}, false},
		"own terminal":                   {sbpl.Query{Op: "file-write-data", Path: "/dev/ttys007"}, true},
		"another terminal":               {sbpl.Query{Op: "file-write-data", Path: "/dev/ttys001"}, false},
		"host's /tmp":                    {sbpl.Query{Op: "file-read-data", Path: "/private/tmp/x"}, false},
		"own TMPDIR":                     {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/state/tmp/1/x"}, true},
		"other state":                    {sbpl.Query{Op: "file-read-data", Path: "/Users/ann/state/token"}, false},
		"swap .git for another":          {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.git"}, false},
		"swap the workspace":             {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w"}, false},
		"replace config as .GIT/CONFIG":  {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.git/CONFIG"}, false},
		"replace hooks as hoo\u212As":    {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.git/hoo\u212as"}, false},
		"mv .GIT x":                      {sbpl.Query{Op: "file-write-unlink", Path: "/Users/ann/w/.GIT"}, false},
		"rm .git/Config":                 {sbpl.Query{Op: "file-write-unlink", Path: "/Users/ann/w/.git/Config"}, false},
		"replace .git as .Git":           {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.Git"}, false},
		"replace secrets as SECRETS":     {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/SECRETS"}, false},
		"a name like it":                 {sbpl.Query{Op: "file-write-create", Path: "/Users/ann/w/.git/config.lock"}, true},
		"another's environment":          {sbpl.Query{Op: "process-info-pidinfo", Target: "others"}, false},
		"its own child's":                {sbpl.Query{Op: "process-info-pidinfo", Target: "same-sandbox"}, true},
		"its own":                        {sbpl.Query{Op: "process-info-setcontrol", Target: "self"}, true},
		"the list of processes":          {sbpl.Query{Op: "process-info-listpids", Target: "others"}, false},
		"read NVRAM":                     {sbpl.Query{Op: "nvram-get"}, false},
		"the machine's serial number":    {sbpl.Query{Op: "iokit-get-properties"}, false},
		"load a denied library":          {sbpl.Query{Op: "file-map-executable", Path: "/Users/ann/.ssh/x.dylib"}, false},
		"load the host's":                {sbpl.Query{Op: "file-map-executable", Path: "/opt/homebrew/lib/x.dylib"}, true},
		"find files by searchfs(2)":      {sbpl.Query{Op: "file-search", Path: "/"}, false},
		"a snapshot of the volume":       {sbpl.Query{Op: "fs-snapshot-create", Path: "/"}, false},
		"mount over it":                  {sbpl.Query{Op: "file-mount", Path: "/Users/ann/w/x"}, false},
		"an extension for others":        {sbpl.Query{Op: "file-issue-extension", Path: "/Users/ann/w"}, false},
		"System V shared memory by call": {sbpl.Query{Op: "syscall-unix", Syscall: "SYS_shmat"}, false},
		"post a notification":            {sbpl.Query{Op: "darwin-notification-post", Name: "com.apple.x"}, false},
		"System V shared memory":         {sbpl.Query{Op: "ipc-sysv-shm"}, false},
		"window server":                  {sbpl.Query{Op: "mach-lookup", Name: "com.apple.windowserver.active"}, false},
		"input":                          {sbpl.Query{Op: "hid-control"}, false},
		"names by mDNSResponder":         {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/private/var/run/mDNSResponder"}, false},
		"names by its short path":        {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/var/run/mDNSResponder"}, false},
		"kernel control socket":          {sbpl.Query{Op: "system-socket", Domain: "AF_SYSTEM"}, false},
		"routing socket":                 {sbpl.Query{Op: "system-socket", Domain: "AF_ROUTE"}, false},
		"make a device":                  {sbpl.Query{Op: "file-mknod", Path: "/dev/x"}, false},
		"debug another":                  {sbpl.Query{Op: "mach-priv-task-port", Target: "others"}, false},
		"keychain service":               {sbpl.Query{Op: "mach-lookup", Name: "com.apple.SecurityServer"}, false},
		"securityd":                      {sbpl.Query{Op: "mach-lookup", Name: "com.apple.securityd"}, false},
		"keychain file":                  {sbpl.Query{Op: "file-read-data", Path: "/Users/ann/Library/Keychains/login.keychain-db"}, false},
		"clipboard":                      {sbpl.Query{Op: "mach-lookup", Name: "com.apple.pasteboard.1"}, false},
		"Apple Events":                   {sbpl.Query{Op: "appleevent-send", Name: "com.apple.finder"}, false},
		"Launch Services":                {sbpl.Query{Op: "lsopen"}, false},
		"configd":                        {sbpl.Query{Op: "mach-lookup", Name: "com.apple.SystemConfiguration.configd"}, true},
		"trustd unasked":                 {sbpl.Query{Op: "mach-lookup", Name: "com.apple.trustd.agent"}, false},
		"other processes' arguments":     {sbpl.Query{Op: "sysctl-read", Name: "kern.procargs2"}, false},
		"processor count":                {sbpl.Query{Op: "sysctl-read", Name: "hw.ncpu"}, true},
		"set a sysctl":                   {sbpl.Query{Op: "sysctl-write", Name: "kern.hostname"}, false},
		"multiprocessing semaphore":      {sbpl.Query{Op: "ipc-posix-sem-create", Name: "/mp-1"}, true},
		"signal outside":                 {sbpl.Query{Op: "signal", Target: "others"}, false},
		"signal inside":                  {sbpl.Query{Op: "signal", Target: "same-sandbox"}, true},
		"proxy":                          {sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("127.0.0.1:49152")}, true},
		"another loopback port":          {sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("127.0.0.1:22")}, false},
		"outside":                        {sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("192.0.2.1:443")}, false},
		"proxy by UDP":                   {sbpl.Query{Op: "network-outbound", Proto: "udp", Remote: at("127.0.0.1:49152")}, false},
		"expose":                         {sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at("127.0.0.1:3000")}, true},
		"bind elsewhere":                 {sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at("0.0.0.0:3001")}, false},
		"listed socket":                  {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/Users/ann/tool.sock"}, true},
		"docker":                         {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/private/var/run/docker.sock"}, false},
		"host socket in the workspace":   {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/Users/ann/w/dev.sock"}, false},
		"own socket":                     {sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/Users/ann/state/tmp/1/s"}, true},
		"setuid bit":                     {sbpl.Query{Op: "file-write-setugid", Path: "/Users/ann/.bashrc"}, false},
		"a new job":                      {sbpl.Query{Op: "job-creation"}, false},
		"graphics driver":                {sbpl.Query{Op: "iokit-open", Name: "IOSurfaceRootUserClient"}, false},
	}
}

func TestTraps(t *testing.T) {
	t.Parallel()
	p, params := build(t, agent(), options())
	for name, c := range traps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ask(t, p, params, c.q); got != c.want {
				t.Errorf("%+v: got %v, want %v", c.q, got, c.want)
			}
		})
	}
}
