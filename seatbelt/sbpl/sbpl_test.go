package sbpl_test

import (
	"net/netip"
	"strings"
	"testing"

	"pinfold/seatbelt/sbpl"
)

func mustParse(t *testing.T, src string) *sbpl.Profile {
	t.Helper()
	p, err := sbpl.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, op string
		want        bool
	}{
		{"default", "signal", true},
		{"file*", "file-read-data", true},
		{"file-read*", "file-read-metadata", true},
		{"file-read*", "file-write-data", false},
		{"file-read-data", "file-read-data", true},
		{"file-read-data", "file-read-metadata", false},
		{"process-exec*", "process-exec", true},
		{"process-exec*", "process-exec-interpreter", true},
		{"process-exec", "process-exec-interpreter", false},
		{"sysctl*", "sysctl-read", true},
		{"ipc-posix-s*", "ipc-posix-shm-read-data", false},
		{"ipc-posix-sem", "ipc-posix-sem-create", true},
		{"ipc-posix-sem", "ipc-posix-shm-read-data", false},
		{"file-link", "file-link-x", false},
	} {
		if got := sbpl.Covers(c.pattern, c.op); got != c.want {
			t.Errorf("Covers(%q, %q) = %v", c.pattern, c.op, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ src, want string }{
		"no version":         {`(deny default)`, "version 1"},
		"other version":      {`(version 2)`, "version 1"},
		"import":             {`(version 1) (import "system.sb")`, "import"},
		"unknown operation":  {`(version 1) (deny file-raed*)`, "unknown operation"},
		"unknown filter":     {`(version 1) (allow file* (entitlement-is-present "x"))`, "not supported"},
		"unclosed list":      {"(version 1)\n(allow file*", "line 2"},
		"unclosed string":    {`(version 1) (allow file* (literal "x))`, "never closed"},
		"stray paren":        {`(version 1))`, "unexpected )"},
		"no operation":       {`(version 1) (allow (literal "/"))`, "no operation"},
		"op after filter":    {`(version 1) (allow file-read* (literal "/") file-write*)`, "after a filter"},
		"empty combination":  {`(version 1) (allow file* (require-all))`, "no filter"},
		"two for not":        {`(version 1) (allow file* (require-not (literal "/a") (literal "/b")))`, "one filter"},
		"bad escape":         {`(version 1) (allow file* (literal "\q"))`, "escape"},
		"remote host":        {`(version 1) (allow network* (remote tcp "10.0.0.1:80"))`, "localhost"},
		"remote port":        {`(version 1) (allow network* (remote tcp "*:99999"))`, "no port"},
		"quotation":          {`(version 1) (allow file* '(literal "/"))`, "quotation"},
		"quotation of it":    {`(version 1) (allow file* ` + "`x)", "quotation"},
		"if":                 {`(version 1) (if #t (allow file*))`, "only (if"},
		"if not defined":     {`(version 1) (if (defined? "x") (allow file*))`, "only (if"},
		"if misspelt":        {`(version 1) (if (defined? 'file-raed*) (allow file*))`, "unknown operation"},
		"if of a version":    {`(if (defined? 'file*) (version 1))`, "only (if"},
		"if with an else":    {`(version 1) (if (defined? 'file*) (allow file*) (deny file*))`, "only (if"},
		"a call by any name": {`(version 1) (deny syscall-unix (syscall-number shmget))`, "SYS_"},
		"two sockets":        {`(version 1) (allow network-outbound (remote unix-socket (literal "/a") (literal "/b")))`, "more than one path"},
		"two in one":         {`(version 1) (allow network-outbound (remote unix-socket (literal "/a" "/b")))`, "more than one path"},
		"no call":            {`(version 1) (deny syscall-unix (syscall-number))`, "without a number"},
		"deep":               {`(version 1) (allow file* ` + strings.Repeat("(require-any ", 100), "deeper"},
		"bad modifier":       {`(version 1) (allow file* (with unsandboxed))`, "modifier"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sbpl.Parse(c.src)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestEvalPaths(t *testing.T) {
	t.Parallel()
	p := mustParse(t, `(version 1) ; comment
(deny default)
(allow file-read* (subpath "/"))
(deny file-read* file-write* (subpath (param "SECRET")))
(allow file-read-data (literal "/home/.ssh/known_hosts"))
(allow file-write* (subpath "/w") (regex #"^/dev/ttys[0-9]+$"))
(deny file-write* (require-all (subpath "/w/.git") (require-not (prefix "/w/.git/objects"))))
(allow file-read* (require-all (vnode-type DIRECTORY) (literal "/home/.ssh")))
`)
	params := map[string]string{"SECRET": "/home/.ssh"}
	for _, c := range []struct {
		op, path, vnode string
		want            bool
	}{
		{"file-read-data", "/etc/hosts", "", true},
		{"file-read-data", "/home/.ssh/id", "", false},
		{"file-read-data", "/home/.ssh/known_hosts", "", true},
		{"file-read-metadata", "/home/.ssh/known_hosts", "", false},
		{"file-read-data", "/home/.ssh", "DIRECTORY", true},
		{"file-read-data", "/home/.ssh", "SYMLINK", false},
		{"file-read-data", "/home/.sshx", "", true},
		{"file-write-data", "/w/a", "", true},
		{"file-write-data", "/wx", "", false},
		{"file-write-data", "/w/.git/config", "", false},
		{"file-write-data", "/w/.git/objects/aa", "", true},
		{"file-write-data", "/dev/ttys003", "", true},
		{"file-write-data", "/dev/ttys003x", "", false},
		{"signal", "", "", false},
	} {
		v, err := p.Eval(sbpl.Query{Op: c.op, Path: c.path, Vnode: c.vnode}, params, sbpl.LastMatch)
		if err != nil {
			t.Fatal(err)
		}
		if v.Allow != c.want {
			t.Errorf("%s %s: got %v, want %v", c.op, c.path, v.Allow, c.want)
		}
	}
	if _, err := p.Eval(sbpl.Query{Op: "file-read-data", Path: "/x"}, nil, sbpl.LastMatch); err == nil {
		t.Error("a missing parameter was no error")
	}
}

func TestEvalNamesAndAddresses(t *testing.T) {
	t.Parallel()
	p := mustParse(t, `(version 1)
(deny default)
(allow mach-lookup (global-name "com.apple.system.logger") (global-name-prefix "com.example."))
(allow sysctl-read (sysctl-name "hw.ncpu"))
(allow signal (target self))
(allow network-outbound (remote tcp "localhost:3128"))
(allow network-outbound (remote unix-socket (subpath "/w")))
(allow network-bind (local ip4 "*:*"))
`)
	at := netip.MustParseAddrPort
	for _, c := range []struct {
		q    sbpl.Query
		want bool
	}{
		{sbpl.Query{Op: "mach-lookup", Name: "com.apple.system.logger"}, true},
		{sbpl.Query{Op: "mach-lookup", Name: "com.apple.SecurityServer"}, false},
		{sbpl.Query{Op: "mach-lookup", Name: "com.example.x"}, true},
		{sbpl.Query{Op: "sysctl-read", Name: "hw.ncpu"}, true},
		{sbpl.Query{Op: "sysctl-write", Name: "hw.ncpu"}, false},
		{sbpl.Query{Op: "signal", Target: "self"}, true},
		{sbpl.Query{Op: "signal", Target: "others"}, false},
		{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("127.0.0.1:3128")}, true},
		{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("[::1]:3128")}, true},
		{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("127.0.0.1:22")}, false},
		{sbpl.Query{Op: "network-outbound", Proto: "udp", Remote: at("127.0.0.1:3128")}, false},
		{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at("192.0.2.1:3128")}, false},
		{sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/w/s"}, true},
		{sbpl.Query{Op: "network-outbound", Proto: "unix-socket", Path: "/var/run/docker.sock"}, false},
		{sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at("0.0.0.0:80")}, true},
		{sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at("[::]:80")}, false},
	} {
		v, err := p.Eval(c.q, nil, sbpl.LastMatch)
		if err != nil {
			t.Fatal(err)
		}
		if v.Allow != c.want {
			t.Errorf("%+v: got %v", c.q, v.Allow)
		}
	}
}

func TestIfDefined(t *testing.T) {
	t.Parallel()
	p := mustParse(t, `(version 1) (deny default) (if (defined? 'socket-option-get) (allow socket-option-get socket-option-set))`)
	for op, want := range map[string]bool{"socket-option-set": true, "signal": false} {
		if v, err := p.Eval(sbpl.Query{Op: op}, nil, sbpl.LastMatch); err != nil || v.Allow != want {
			t.Errorf("%s: got %+v, %v", op, v, err)
		}
	}
}

// The readings that public reports disagree on give different answers here,
// which is what a profile must avoid.
func TestSemanticsDiffer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src  string
		q    sbpl.Query
		want [5]bool // in the order of AllSemantics
	}{
		"wildcard allow after a specific deny": {
			`(deny file-read-data (subpath "/s")) (allow file-read* (subpath "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x"},
			[5]bool{true, false, true, true, true},
		},
		"plain deny after a filtered allow": {
			`(allow file-read* (require-all (subpath "/s") (vnode-type DIRECTORY))) (deny file-read*)`,
			sbpl.Query{Op: "file-read-data", Path: "/s", Vnode: "DIRECTORY"},
			[5]bool{false, false, true, true, false},
		},
		"same operations, each filtered": {
			`(deny file-read* (subpath "/s")) (allow file-read* (subpath "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x"},
			[5]bool{true, true, true, true, true},
		},
		"specific allow before a wildcard deny": {
			`(allow file-read-data (subpath "/s")) (deny file-read* (subpath "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x"},
			[5]bool{false, true, false, false, false},
		},
		"specific allow before a deny of the same": {
			`(allow file-read-data (subpath "/s")) (deny file-read-data (subpath "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x"},
			[5]bool{false, false, false, false, false},
		},
		"literal before a subpath": {
			`(allow file-read* (literal "/s/x")) (deny file-read* (subpath "/s"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x"},
			[5]bool{false, false, false, true, false},
		},
		"require-all before a subpath, which a literal beats": {
			`(allow file-read* (require-all (subpath "/s") (vnode-type DIRECTORY))) (deny file-read* (subpath "/s/x")) (deny file-read* (literal "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x", Vnode: "DIRECTORY"},
			[5]bool{false, false, false, false, false},
		},
		"require-all before a subpath": {
			`(allow file-read* (require-all (subpath "/s") (vnode-type DIRECTORY))) (deny file-read* (subpath "/s/x"))`,
			sbpl.Query{Op: "file-read-data", Path: "/s/x", Vnode: "DIRECTORY"},
			[5]bool{false, false, false, true, false},
		},
		"outside default": {
			`(deny default) (allow process-info* (target self))`,
			sbpl.Query{Op: "process-info-pidinfo", Target: "others"},
			[5]bool{false, false, false, false, true},
		},
		"outside default, and denied": {
			`(deny default) (deny process-info*) (allow process-info* (target self))`,
			sbpl.Query{Op: "process-info-pidinfo", Target: "others"},
			[5]bool{false, false, false, false, false},
		},
		"no rule at all": {
			`(deny signal)`,
			sbpl.Query{Op: "nvram-get"},
			[5]bool{false, false, false, false, true},
		},
	} {
		p := mustParse(t, "(version 1) "+c.src)
		for i, s := range sbpl.AllSemantics() {
			v, err := p.Eval(c.q, nil, s)
			if err != nil {
				t.Fatal(err)
			}
			if v.Allow != c.want[i] {
				t.Errorf("%s under %d: got %v", name, s, v.Allow)
			}
			all, err := p.EvalAll(c.q, nil)
			if err != nil || all[i].Allow != c.want[i] {
				t.Errorf("%s under all: got %+v, %v", name, all, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`(version 1)(deny default)(allow file-read* (subpath (param "A")) (regex #"^/x$"))`)
	f.Add(`(version 1)(allow network* (remote tcp "*:*") (local unix-socket (literal "/a")))`)
	f.Add("((((")
	f.Fuzz(func(t *testing.T, src string) {
		p, err := sbpl.Parse(src)
		if err != nil {
			return
		}
		for _, s := range sbpl.AllSemantics() {
			v, err := p.Eval(sbpl.Query{Op: "file-read-data", Path: "/a", Name: "n"}, map[string]string{"A": "/a"}, s)
			if err == nil && v.Allow && v.Rule == nil { // file-read-data is within default
				t.Fatal("allowed by no rule")
			}
		}
	})
}

func TestEvalExtensionsAndDomains(t *testing.T) {
	t.Parallel()
	p := mustParse(t, `(version 1)
(allow file-read-data (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow system-socket (socket-domain AF_UNIX))
(allow syscall-unix (syscall-number SYS_shmget 262))
(allow ipc-posix-shm-read-data (ipc-posix-name-regex #"^/psm_"))`)
	for _, c := range []struct {
		q    sbpl.Query
		want bool
	}{
		{sbpl.Query{Op: "file-read-data", Path: "/dev/ttys001"}, false},
		{sbpl.Query{Op: "file-read-data", Path: "/dev/ttys001", Extensions: []string{"com.apple.sandbox.pty"}}, true},
		{sbpl.Query{Op: "file-read-data", Path: "/dev/ttysX", Extensions: []string{"com.apple.sandbox.pty"}}, false},
		{sbpl.Query{Op: "system-socket", Domain: "AF_UNIX"}, true},
		{sbpl.Query{Op: "system-socket", Domain: "AF_SYSTEM"}, false},
		{sbpl.Query{Op: "system-socket"}, false},
		{sbpl.Query{Op: "syscall-unix", Syscall: "SYS_shmget"}, true},
		{sbpl.Query{Op: "syscall-unix", Syscall: "262"}, true},
		{sbpl.Query{Op: "syscall-unix", Syscall: "26"}, false},
		{sbpl.Query{Op: "syscall-unix"}, false},
		{sbpl.Query{Op: "ipc-posix-shm-read-data", Name: "/psm_1"}, true},
		{sbpl.Query{Op: "ipc-posix-shm-read-data", Name: "/other"}, false},
	} {
		v, err := p.Eval(c.q, nil, sbpl.LastMatch)
		if err != nil || v.Allow != c.want {
			t.Errorf("%+v: got %v, %v, want %v", c.q, v.Allow, err, c.want)
		}
	}
}
