package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// usualDirs are where programs lie, whatever PATH says.
var usualDirs = []string{"/usr/local/bin", "/usr/bin", "/bin", "/run/wrappers/bin", "/run/current-system/sw/bin"}

// find is the directory of a program: of PATH, or else of the usual ones; ""
// where none has it.
func (h *Host) find(program string) string {
	for _, dir := range slices.Concat(h.Path, usualDirs) {
		info, err := fs.Stat(h.Root, strings.TrimPrefix(path.Join(dir, program), "/"))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return dir
		}
	}
	return ""
}

// forUser words a fix for who asks: root needs no sudo, and where there is
// none the commands are root's to type.
func (h *Host) forUser(fix string) string {
	if !strings.Contains(fix, sudo) || h.UID != 0 && h.find("sudo") != "" {
		return fix
	}
	lines := strings.Split(fix, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "# ") { // else it is typed elsewhere
			lines[i] = withoutSudo(line)
		}
	}
	plain := strings.Join(lines, "\n")
	if h.UID == 0 || plain == fix {
		return plain
	}
	return words(AsRoot) + "\n" + plain
}

const sudo = "sudo "

// AsRoot stands above commands that only root can type.
const AsRoot = "as root:"

// withoutSudo takes sudo off each command of a line. What stands in quotes is
// a name.
func withoutSudo(line string) string {
	var b strings.Builder
	for quoted := false; line != ""; {
		switch {
		case strings.HasPrefix(line, `\`) && len(line) > 1:
			b.WriteString(line[:2])
			line = line[2:]
			continue
		case line[0] == '\'':
			quoted = !quoted
		case !quoted && strings.HasPrefix(line, sudo) && (b.Len() == 0 || strings.HasSuffix(b.String(), " ")):
			line = line[len(sudo):]
			continue
		}
		b.WriteByte(line[0])
		line = line[1:]
	}
	return b.String()
}
