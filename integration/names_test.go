//go:build linux

package integration_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// layTree makes {ws}/r/q with all that the matrix covers, and beside.
const layTree = `cd {ws}; chmod -R u+w r other* 2>&- || :; rm -rf r other*; mkdir -p r/q/rodir r/q/nodir r/q/free r/beside otherdir
echo keep >r/q/rofile; echo keep >r/q/rodir/f; echo keep >r/q/nofile; echo keep >r/q/nodir/f; echo free >r/q/free/f; echo other >otherdir/f; echo other >otherfile
`

// nameTries are attempts to get a covered name out of the way: $p is the path,
// $o something of the same kind.
func nameTries() map[string]string {
	return map[string]string{
		"rename":                       `mv -T $p $p.x`,
		"rename elsewhere":             `mv -T $p {ws}/x`,
		"remove":                       `rm -rf $p && [ ! -e $p ]`,
		"replace":                      `rm -rf $p; cp -r $o $p.n && {attack} rename $p.n $p`,
		"replace by a link":            `rm -rf $p; ln -sT /etc/hosts $p`,
		"exchange":                     `cp -r $o $p.e && {attack} exchange $p $p.e`,
		"rename the parent":            `mv -T r/q r/x`,
		"rename the parent out":        `mv -T r/q x`,
		"remove the parent":            `rm -rf r/q && [ ! -e r/q ]`,
		"exchange the parent":          `{attack} exchange {ws}/r/q {ws}/otherdir`,
		"replace the parent by a link": `{ mv -T r/q y || rm -rf r/q; }; ln -sT {ws}/otherdir r/q`,
		"rename the grandparent":       `mv -T r z`,
		"exchange the grandparent":     `{attack} exchange {ws}/r {ws}/otherdir`,
		"replace the grandparent":      `rm -rf r; ln -sT {ws}/otherdir r`,
		"remove and make again":        `rm -rf r; mkdir r`,
		"write":                        `{attack} write $p/f || { [ ! -d $p ] && {attack} write $p; }`,
		"make writable":                `{attack} chmod $p`,
		"a hard link to write through": `if [ -d $p ]; then ln $p/f {ws}/hl; else ln $p {ws}/hl; fi`,
	}
}

// TestNamesHold: what is covered keeps its name, whatever is done to it and to
// the directories above, and the host's files stay as they were.
func TestNamesHold(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	policy := workspaceOnly()
	policy["read_only"] = []string{"{workspace}/r/q/rofile", "{workspace}/r/q/rodir"}
	policy["read"] = doc{"deny": []string{"{workspace}/r/q/nofile", "{workspace}/r/q/nodir", "{workspace}/r/q/missing"}}
	for _, name := range []string{"rofile", "rodir", "nofile", "nodir", "missing"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(t, l.place(nil).Replace(layTree))
			res := l.wrap(t, launch{policy: policy, argv: []string{"sh", "-c", l.matrix(name, "")}})
			if res.code != 0 || strings.Contains(res.stdout, "DID") || strings.Count(res.stdout, "HELD") != len(nameTries()) {
				t.Errorf("%v", res)
			}
			l.unharmed(t)
		})
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, name := range []string{"rofile", "rodir"} {
			res := l.direct(t, launch{argv: []string{"sh", "-c", l.matrix(name, layTree)}})
			if strings.Contains(res.stdout, "HELD") || strings.Count(res.stdout, "DID") != len(nameTries()) {
				t.Errorf("outside not everything works, so it proves nothing: %v", res)
			}
		}
	})
}

// matrix is a script of all tries on one path, each after a fresh layout if one
// is given.
func (l *lab) matrix(name, fresh string) string {
	var s strings.Builder
	other := "otherfile"
	if strings.HasSuffix(name, "dir") || name == "missing" {
		other = "otherdir"
	}
	for what, try := range nameTries() {
		fmt.Fprintf(&s, "%s\ncd {ws}; [ -e otherfile ] || echo other >otherfile; [ -e otherdir ] || mkdir otherdir; [ -e otherdir/f ] || echo other >otherdir/f\n", fresh)
		fmt.Fprintf(&s, "p={ws}/r/q/%s o={ws}/%s\nif ( %s ) >/dev/null 2>&1; then echo DID %s; else echo HELD %s; fi\nrm -rf {ws}/x {ws}/y {ws}/z {ws}/hl $p.? 2>&-\n", name, other, try, what, what)
	}
	return l.place(nil).Replace(s.String())
}

// unharmed looks at the host's files once the run is over.
func (l *lab) unharmed(t *testing.T) {
	t.Helper()
	for _, p := range []string{"rofile", "rodir/f", "nofile", "nodir/f"} {
		if got := read(t, l.ws+"/r/q/"+p); got != "keep\n" {
			t.Errorf("%s on the host: %q", p, got)
		}
	}
	for _, p := range []string{"r", "r/q"} {
		if info, err := os.Lstat(l.ws + "/" + p); err != nil || !info.IsDir() {
			t.Errorf("%s on the host: %v", p, err)
		}
	}
	absent(l.ws+"/r/q/missing")(t, l)
}

// TestBesideCovers: what lies beside and beneath pinned directories stays
// fully usable: renames and links across them are no change of file system.
func TestBesideCovers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	policy := workspaceOnly()
	policy["read_only"] = []string{"{workspace}/r/q/rofile"}
	policy["read"] = doc{"deny": []string{"{workspace}/r/q/nodir"}}
	l.sh(t, l.place(nil).Replace(layTree))
	res := l.wrap(t, launch{policy: policy, argv: []string{"sh", "-ec", l.place(nil).Replace(`cd {ws}
{attack} rename {ws}/r/q/free/f {ws}/r/beside/f
{attack} rename {ws}/otherdir {ws}/r/q/moved
{attack} link {ws}/r/q/moved/f {ws}/linked
{attack} rename {ws}/r/q/moved {ws}/otherdir
{attack} rename {ws}/r/q/free {ws}/free
{attack} rename {ws}/r/beside {ws}/.git/beside
rm -r {ws}/.git/beside
{attack} exchange {ws}/free {ws}/otherdir
! git init -q . 2>/dev/null
git add -A; git commit -qm more; git status --porcelain
mkdir sub; cd sub; git init -q; echo x >x; git add -A; git commit -qm sub; git config a.b c; mv .git g; mv g .git
echo all`)}})
	if res.code != 0 || !strings.HasSuffix(res.stdout, "all\n") {
		t.Errorf("%v", res)
	}
}
