package guard

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// table makes a mount table from lines "ID PARENT DEV ROOT POINT [TYPE
// [OPTIONS]]".
func table(t testing.TB, lines ...string) *mountTable {
	t.Helper()
	var b strings.Builder
	for _, l := range lines {
		f := strings.Fields(l)
		kind, options := "ext4", "rw"
		if len(f) > 5 {
			kind = f[5]
		}
		if len(f) > 6 {
			options = f[6]
		}
		b.WriteString(strings.Join(f[:5], " ") + " rw,relatime shared:1 - " + kind + " none " + options + "\n")
	}
	list, err := parseMounts(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return newMountTable(list)
}

func TestAliases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mounts []string
		path   string
		want   []string
	}{
		"none": {[]string{"1 1 8:1 / /"}, "/s", nil},
		"a bind of the directory": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s /mnt"}, "/s", []string{"/mnt"},
		},
		"a bind of a file": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s/key /mnt/key"}, "/s/key", []string{"/mnt/key"},
		},
		"a bind of the parent": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /home /mnt"}, "/home/u/s", []string{"/mnt/u/s"},
		},
		"a bind of a child": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s/deep/in /mnt"}, "/s", []string{"/mnt"},
		},
		"a bind of a sibling": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s-other /mnt"}, "/s", nil,
		},
		"a bind of the whole file system": {
			[]string{"1 1 8:1 / /", "2 1 8:1 / /mnt"}, "/s", []string{"/mnt/s"},
		},
		"the path is a bind itself": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /data/s /s"}, "/s", []string{"/data/s"},
		},
		"one file system mounted twice": {
			[]string{"1 1 8:1 / /", "2 1 8:2 / /a", "3 1 8:2 / /b"}, "/a/s", []string{"/b/s"},
		},
		"another file system with the same root": {
			[]string{"1 1 8:1 / /", "2 1 8:2 / /a", "3 1 8:3 / /b"}, "/a/s", nil,
		},
		"an alias that is mounted over": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s /mnt", "3 2 8:9 / /mnt"}, "/s", nil,
		},
		"the path is mounted over": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s /mnt", "3 1 8:9 / /s"}, "/s", nil,
		},
		"a file system beneath, mounted elsewhere too": {
			[]string{"1 1 8:1 / /", "2 1 8:5 / /s/in", "3 1 8:5 / /mnt"}, "/s", []string{"/mnt"},
		},
		"the system bound into a jail beneath": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /usr /s/jail/usr"}, "/s", nil,
		},
		"a bind of a bind": {
			[]string{"1 1 8:1 / /", "2 1 8:1 /s /a", "3 1 8:1 /s/x /b"}, "/s", []string{"/a", "/b"},
		},
		"names with spaces": {
			[]string{`1 1 8:1 / /`, `2 1 8:1 /my\040s /mnt\040t`}, "/my s", []string{"/mnt t"},
		},
		"subvolumes": {
			[]string{"1 1 0:30 /@ / btrfs", "2 1 0:30 /@home /home btrfs", "3 1 0:30 / /top btrfs"},
			"/home/u/.ssh",
			[]string{"/top/@home/u/.ssh"},
		},
		"an overlay's layers": {
			[]string{
				"1 1 8:1 / /",
				"2 1 0:40 / /merged overlay rw,lowerdir=/l1:/l2,upperdir=/up,workdir=/work",
			},
			"/merged/etc/s",
			[]string{"/l1/etc/s", "/l2/etc/s", "/up/etc/s", "/work/etc/s"},
		},
		"a layer of an overlay": {
			[]string{
				"1 1 8:1 / /",
				"2 1 0:40 / /merged overlay rw,lowerdir=/l1:/l2,upperdir=/up,workdir=/work",
			},
			"/l1/etc/s",
			[]string{"/l2/etc/s", "/merged/etc/s", "/up/etc/s", "/work/etc/s"},
		},
		"container storage": {
			[]string{
				"1 1 8:1 / /",
				"2 1 0:40 / /run/x/rootfs overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/var/lib/docker/overlay2/b/diff,workdir=/var/lib/docker/overlay2/b/work",
			},
			"/var/lib/docker",
			[]string{"/run/x/rootfs"},
		},
		"an overlay layer with a colon in its name": {
			[]string{"1 1 8:1 / /", `2 1 0:40 / /merged overlay rw,lowerdir=/a\134:b:/c`},
			"/merged/s",
			[]string{"/a:b/s", "/c/s"},
		},
		"an overlay as the root": {
			[]string{"1 0 0:40 / / overlay rw,lowerdir=/none/l,upperdir=/none/u,workdir=/none/w", "2 1 8:1 /v /data"},
			"/data/s", nil,
		},
		"a path of an overlay as the root": {
			[]string{"1 0 0:40 / / overlay rw,lowerdir=/none/l:/none/k,upperdir=/none/u,workdir=/none/w"},
			"/etc/s", nil,
		},
		"an overlay as the root, its layers mounted in it": {
			[]string{"1 0 0:40 / / overlay rw,lowerdir=/store/l,upperdir=/store/u,workdir=/store/w", "2 1 8:1 /store /store"},
			"/etc/s",
			[]string{"/store/l/etc/s", "/store/u/etc/s", "/store/w/etc/s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, table(t, c.mounts...).aliases(c.path)); diff != "" {
				t.Errorf("aliases of %q (-want +got):\n%s", c.path, diff)
			}
		})
	}
}

func TestHostMountTable(t *testing.T) {
	t.Parallel()
	list, err := hostMounts()
	if err != nil {
		t.Fatal(err)
	}
	tbl := newMountTable(list)
	if tbl.root < 0 {
		t.Fatal("the machine's mount table has no root")
	}
	// What the table says is the file system of a path must be what stat says.
	for _, p := range []string{"/", "/proc", "/etc/passwd"} {
		o, err := newHostFS().lookup(p)
		if err != nil {
			t.Fatal(err)
		}
		if o.kind != Dir && tbl.all[tbl.at(o.path)].kind == "overlay" {
			continue // whose files may have a device of their layer's, overlayfs.rst
		}
		if f, ok := tbl.locate(o.path); !ok || f.dev != o.id.Dev {
			t.Errorf("%q lies on %+v, stat says %x", p, f, o.id.Dev)
		}
	}
}

func FuzzMountTable(f *testing.F) {
	if text, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		f.Add(string(text), "/etc/passwd")
	}
	f.Add("1 1 8:1 / / rw - ext4 x rw\n2 1 8:1 /s /mnt rw - ext4 x rw\n", "/s")
	f.Add("1 1 0:4 / / rw - overlay x lowerdir=/a\\134:b:/c\n", "/a")
	f.Fuzz(func(t *testing.T, text, p string) {
		list, err := parseMounts(strings.NewReader(text))
		if err != nil || !isClean(p) {
			return
		}
		for _, q := range newMountTable(list).aliases(p) {
			if !isClean(q) || within(q, p) {
				t.Errorf("aliases of %q hold %q", p, q)
			}
		}
	})
}
