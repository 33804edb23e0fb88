//go:build linux

package container_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/container/conformance"
	"pinfold/container/engine"
	"pinfold/doctor"
)

// nested is a way to start a container that pinfold is to hold a process in.
type nested struct {
	options []string
	works   bool
	row     string // that tells
	code    string
	fix     []string // options that it names
	not     string   // one that it doesn't
}

const (
	onlyUserns   = "user namespaces"
	unconfined   = "seccomp=unconfined"
	dockerUnmask = "systempaths=unconfined"
	podmanUnmask = "unmask=ALL"
)

// dockerNests: docker's profile refuses new namespaces, and parts of /proc are
// masked.
func dockerNests() map[string]nested {
	return map[string]nested{
		"default":          {nil, false, onlyUserns, "inside_container", []string{unconfined, dockerUnmask}, "SETFCAP"},
		"no filter":        {[]string{"--security-opt", unconfined}, false, onlyUserns, "proc_sys_read_only", []string{dockerUnmask}, unconfined},
		"CAP_SYS_ADMIN":    {[]string{"--cap-add", "SYS_ADMIN"}, false, onlyUserns, "inside_container", []string{unconfined, dockerUnmask}, "SETFCAP"},
		"no capabilities":  {withoutCapabilities, false, onlyUserns, "inside_container", []string{unconfined, dockerUnmask, "SETFCAP"}, ""},
		"an ordinary user": {ordinaryUser, false, onlyUserns, "inside_container", []string{unconfined, dockerUnmask}, "SETFCAP"},
	}
}

// podmanNests: podman's profile allows new namespaces, so what is masked alone
// is in the way.
func podmanNests() map[string]nested {
	return map[string]nested{
		"default":          {nil, false, onlyUserns, "proc_sys_read_only", []string{podmanUnmask}, unconfined},
		"no capabilities":  {withoutCapabilities, false, onlyUserns, "userns_setfcap", []string{podmanUnmask, "SETFCAP"}, unconfined},
		"an ordinary user": {ordinaryUser, false, onlyUserns, "proc_sys_read_only", []string{podmanUnmask}, "SETFCAP"},
		"only /proc/sys":   {[]string{"--security-opt", "unmask=/proc/sys"}, false, "fresh /proc", "proc_masked", []string{podmanUnmask}, unconfined},
		"privileged":       {[]string{"--privileged"}, true, "", "", nil, ""},
	}
}

// What hardened containers are started with.
var (
	withoutCapabilities = []string{"--cap-drop", "ALL", "--security-opt", "no-new-privileges"}
	ordinaryUser        = []string{"--user", "1001:1001", "--read-only", "--tmpfs", "/home:mode=1777"}
)

// TestDoctorInContainers: in each kind of container doctor says what wrap does,
// and once the container is started as doctor says, both work.
func TestDoctorInContainers(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		nests := podmanNests()
		if l.engine == engine.Docker {
			nests = dockerNests()
		}
		if _, err := exec.LookPath(l.client.argv[0]); err != nil {
			t.Skipf("no %s: %v", l.engine, err)
		}
		for name, n := range nests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				newNest(t, l).check(n)
			})
		}
	})
}

// TestDoctorPrivileged: in a container that may do everything, nothing is to be
// done.
func TestDoctorPrivileged(t *testing.T) {
	if os.Getenv("PINFOLD_INTEGRATION") == "" {
		t.Skip("PINFOLD_INTEGRATION is not set")
	}
	newNest(t, privilegedDocker(t)).check(nested{options: []string{"--privileged"}, works: true})
}

// TestDoctorUnsharedPaths: an engine that sees other files than pinfold does,
// like one whose socket was handed into a container.
func TestDoctorUnsharedPaths(t *testing.T) {
	d := newDocker(t)
	p := newPen(t, &lab{name: "docker", engine: engine.Docker, endpoint: d.endpoint(), home: "/root"})
	p.env = append(p.env, "PINFOLD_CONTAINER_RUNTIME=docker")
	hidden := filepath.Join(p.state, "workspace")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	d.kill()
	d.args = append([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs none "$0" && exec "$@"`, hidden}, d.args...)
	d.start()
	got := p.call("doctor", "--tier", "container", "--json")
	var report doctor.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v: %v", err, got)
	}
	row := rowOf(t, report.Rows, "shared paths")
	if got.code != 1 || row.Status != doctor.Fail || !strings.Contains(row.Fix, "the same directories at the same paths") {
		t.Errorf("exit %d\n%s", got.code, tableOf(report.Rows))
	}
	if got := p.wrap(nil, "true", "--workspace", "tmp"); got.code != 125 {
		t.Errorf("and wrap: %v", got)
	}
}

// privilegedDocker is the machine's docker, where this machine has all
// capabilities, and else one that leaves those out that it hasn't: docker asks
// for all, and runc fails for each that there is none to give of.
func privilegedDocker(t *testing.T) *lab {
	t.Helper()
	missing := missingCapabilities(t)
	if len(missing) == 0 {
		return dockerLab(t)
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skipf("no docker: %v", err)
	}
	script := "#!/bin/sh\nfor arg; do\n\tcase $before in --bundle) sed -i '"
	for _, name := range missing {
		script += `s/"` + name + `",//g; s/,"` + name + `"//g; `
	}
	script += "' \"$arg/config.json\";; esac\n\tbefore=$arg\ndone\nexec '" + runc + "' \"$@\"\n"
	file := filepath.Join(t.TempDir(), "runc")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	d := newDocker(t, "--add-runtime", "less="+file, "--default-runtime", "less")
	return &lab{name: "docker", engine: engine.Docker, endpoint: d.endpoint(), home: "/root", client: dockerClient(d.endpoint())}
}

// missingCapabilities are those of the kernel's that nobody here can have, in
// the words of the runtime specification. Only the one is known to be kept from
// whole machines, and any other fails loudly.
func missingCapabilities(t *testing.T) []string {
	t.Helper()
	var missing []string
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		switch {
		case err != nil:
			return missing // more than this kernel knows
		case has == 0 && c == unix.CAP_SYS_RESOURCE:
			missing = append(missing, "CAP_SYS_RESOURCE")
		case has == 0:
			t.Fatalf("capability %d is missing here", c)
		}
	}
	return missing
}

// nest starts containers with pinfold, bubblewrap and a shell in them.
type nest struct {
	t      *testing.T
	l      *lab
	image  string
	always []string
}

func newNest(t *testing.T, l *lab) *nest {
	t.Helper()
	bin, err := penPinfold()
	if err != nil {
		t.Fatal(err)
	}
	n := &nest{t: t, l: l, image: l.load(t, l.connect(t), nestImage(t))}
	dir, err := os.MkdirTemp(shared.dir, "socket-")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", dir+"/s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	for file, mode := range map[string]os.FileMode{dir: 0o755, dir + "/s": 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	n.always = []string{"--volume", bin + ":/usr/bin/pinfold:ro", "--volume", dir + ":/socket:ro"}
	if l.engine == engine.Podman { // it asks for more files than who lacks CAP_SYS_RESOURCE may have
		n.always = append(n.always, "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
	}
	return n
}

// nestImage has bubblewrap with its libraries, and the shell image's programs.
func nestImage(t *testing.T) conformance.Image {
	t.Helper()
	i := shellImage(t)
	i.Name = "localhost/pinfold-test/nest:1"
	i.Config.Env = []string{"PATH=/bin:/usr/bin", "HOME=/home"}
	i.Files["home/"] = conformance.File{Mode: 0o1777}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := exec.CommandContext(t.Context(), "ldd", bwrap).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range append(strings.Fields(string(libraries)), bwrap, "/etc/os-release") {
		if !filepath.IsAbs(word) {
			continue
		}
		content, err := os.ReadFile(word)
		if err != nil {
			t.Fatal(err)
		}
		i.Files[strings.TrimPrefix(word, "/")] = conformance.File{Mode: 0o755, Content: content}
	}
	i.Architecture = runtime.GOARCH
	return i
}

// check asks, does what it is told to, and asks again.
func (n *nest) check(c nested) {
	n.t.Helper()
	rows, works, refused := n.agree(c.options)
	if works != c.works {
		n.t.Fatalf("doctor says %v, want %v\n%s", works, c.works, tableOf(rows))
	}
	if c.works {
		return
	}
	added := n.told(c, rowOf(n.t, rows, c.row), refused)
	if rows, works, _ := n.agree(append(slices.Clone(c.options), added...)); !works {
		n.t.Errorf("with %v it still doesn't work\n%s", added, tableOf(rows))
	}
	if len(c.options) > 2 { // which of them are needed was seen with the others
		return
	}
	for i := 0; i < len(added); i += 2 {
		less := slices.Delete(slices.Clone(added), i, i+2)
		if code, text := n.wrap(append(slices.Clone(c.options), less...)); code != 125 {
			n.t.Errorf("without %v too: exit %d\n%s", added[i:i+2], code, text)
		}
	}
}

// told are the options that a row says to add.
func (n *nest) told(c nested, row doctor.Result, refused string) []string {
	n.t.Helper()
	line, found := strings.CutPrefix(row.Fix, "# start the container with this as well: "+n.l.engine+" run ")
	line, complete := strings.CutSuffix(line, " …")
	if row.Code != c.code || !found || !complete {
		n.t.Fatalf("got %+v, want %+v", row, c)
	}
	if !strings.Contains(refused, "hint: "+strings.TrimPrefix(row.Fix, "# ")+"\n") {
		n.t.Errorf("wrap doesn't say %q:\n%s", row.Fix, refused)
	}
	for _, o := range c.fix {
		if !strings.Contains(line, " "+o) {
			n.t.Errorf("%q isn't in %q", o, line)
		}
	}
	if c.not != "" && strings.Contains(line, c.not) {
		n.t.Errorf("%q has nothing to do with it: %q", c.not, line)
	}
	return strings.Fields(line)
}

// nestPolicies are what doctor's own launches ask for: the last one with a
// socket besides.
var nestPolicies = [3]string{
	`{"version": 1}`,
	`{"write": ["{workspace}"], "read": {"deny": ["{workspace}/denied"]}, "network": {"allow": ["example.com:443"]}}`,
	`{"write": ["{workspace}"], "sockets": ["{toolbelt}"]}`,
}

// agree compares what doctor says in a container with what wrap does there.
func (n *nest) agree(options []string) (rows []doctor.Result, works bool, refused string) {
	n.t.Helper()
	script := "pinfold doctor --json; echo =$?\n"
	for _, p := range nestPolicies {
		script += fmt.Sprintf("echo '%s' | pinfold wrap --quiet --workspace tmp --toolbelt /socket/s --policy /dev/stdin -- true 2>&1; echo =$?\n", p)
	}
	codes, texts := n.run(options, script, 1+len(nestPolicies))
	var report doctor.Report
	if err := json.Unmarshal([]byte(texts[0]), &report); err != nil {
		n.t.Fatalf("no rows: %v\n%v", err, texts)
	}
	works = codes[0] == 0
	if works != (report.Verdict == doctor.OK || report.Verdict == doctor.Warn) {
		n.t.Errorf("exit %d and verdict %s", codes[0], report.Verdict)
	}
	if works != (codes[1] == 0 && codes[2] == 0) {
		n.t.Errorf("doctor says %v, and launches ended with %v\n%s\n%v", works, codes[1:], tableOf(report.Rows), texts[1:])
	}
	if row := rowOf(n.t, report.Rows, "launch: grants"); (row.Status == doctor.OK) != (codes[2] == 0 && codes[3] == 0) {
		n.t.Errorf("of sockets doctor says %+v, and launches ended with %v", row, codes[1:])
	}
	return report.Rows, works, texts[1]
}

// wrap is one launch in such a container.
func (n *nest) wrap(options []string) (code int, text string) {
	n.t.Helper()
	codes, texts := n.run(options, "pinfold wrap --quiet --workspace tmp -- true 2>&1; echo =$?\n", 1)
	return codes[0], texts[0]
}

// run is a script in a container, each of whose commands ends with "=" and its
// exit code.
func (n *nest) run(options []string, script string, commands int) (codes []int, texts []string) {
	n.t.Helper()
	a := n.l.runContainer(n.t, n.image, append(slices.Clone(n.always), options...), "/bin/sh", "-c", script)
	text := ""
	for line := range strings.Lines(a.stdout) {
		code, isCode := strings.CutPrefix(line, "=")
		if !isCode {
			text += line
			continue
		}
		number, err := strconv.Atoi(strings.TrimSpace(code))
		if err != nil {
			n.t.Fatalf("%q: %v", line, err)
		}
		codes, texts, text = append(codes, number), append(texts, text), ""
	}
	if len(codes) != commands {
		n.t.Fatalf("%v: %v", options, a)
	}
	return codes, texts
}

func rowOf(t *testing.T, rows []doctor.Result, name string) doctor.Result {
	t.Helper()
	i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no row %q in\n%s", name, tableOf(rows))
	}
	return rows[i]
}

func tableOf(rows []doctor.Result) string {
	var b strings.Builder
	_ = doctor.Text(&b, rows, false) // a builder takes everything
	return b.String()
}
