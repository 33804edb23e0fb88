package doctor

import (
	"errors"
	"io/fs"
	"strings"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Distribution is what os-release(5) says, and whether this is WSL.
type Distribution struct {
	ID      string // "debian", "ubuntu", "fedora", …; "" unknown
	Like    []string
	Version string
	Pretty  string
	WSL     int // 0 none, else 1 or 2
}

// family is one of the families that fixes are written for.
type family string

const (
	debian   family = "debian"
	fedora   family = "fedora"
	arch     family = "arch"
	alpine   family = "alpine"
	suse     family = "suse"
	nixos    family = "nixos"
	unnamed  family = ""
	wslMark         = "microsoft"
	wsl2Mark        = "wsl2"
)

var families = map[string]family{
	"debian": debian, "ubuntu": debian, "linuxmint": debian, "pop": debian, "raspbian": debian,
	"fedora": fedora, "rhel": fedora, "centos": fedora, "rocky": fedora, "almalinux": fedora, "amzn": fedora,
	"arch": arch, "manjaro": arch, "endeavouros": arch,
	"alpine": alpine, "postmarketos": alpine,
	"opensuse": suse, "suse": suse, "sles": suse, "opensuse-leap": suse, "opensuse-tumbleweed": suse,
	"nixos": nixos,
}

func (d Distribution) family() family {
	for _, id := range append([]string{d.ID}, d.Like...) {
		if f, ok := families[id]; ok {
			return f
		}
	}
	return unnamed
}

// install is the command that installs a package, by its Debian name.
func (d Distribution) install(pkg string) string {
	names := map[string]map[family]string{
		"uidmap": {fedora: "shadow-utils", arch: "shadow", suse: "shadow", alpine: "shadow-uidmap"},
	}
	if other, ok := names[pkg][d.family()]; ok {
		pkg = other
	}
	switch d.family() {
	case debian:
		return "sudo apt-get update && sudo apt-get install -y " + pkg
	case fedora:
		return "sudo dnf install -y " + pkg
	case arch:
		return "sudo pacman -S --needed --noconfirm " + pkg
	case alpine:
		return "sudo apk add " + pkg
	case suse:
		return "sudo zypper --non-interactive install " + pkg
	case nixos:
		return "nix-env -iA nixos." + pkg + "   # or add pkgs." + pkg + " to environment.systemPackages"
	}
	return words("install the package " + pkg + " with your distribution's package manager")
}

func readDistribution(root fs.FS) Distribution {
	var d Distribution
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		d = parseOSRelease(string(b))
		break
	}
	if release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease"); err == nil {
		d.WSL = wslVersion(strings.ToLower(string(release)))
	}
	return d
}

// wslVersion: WSL 1 kernels call themselves "4.4.0-19041-Microsoft", WSL 2
// ones "5.15.153.1-microsoft-standard-WSL2".
func wslVersion(release string) int {
	switch {
	case !strings.Contains(release, wslMark):
		return 0
	case strings.Contains(release, wsl2Mark) || strings.Contains(release, "standard"):
		return 2
	}
	return 1
}

func parseOSRelease(text string) Distribution {
	v := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if k, val, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			v[k] = strings.Trim(val, `"'`)
		}
	}
	return Distribution{ID: v["ID"], Like: strings.Fields(v["ID_LIKE"]), Version: v["VERSION_ID"], Pretty: v["PRETTY_NAME"]}
}
