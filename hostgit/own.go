package hostgit

import (
	"slices"
	"strings"
)

// isOwn reports whether a key that is refused otherwise has a value that names
// something of git's own, or nothing but a file.
func isOwn(section, name, value string) bool {
	switch section + "." + name {
	case "merge.tool", "merge.guitool", "diff.tool", "diff.guitool":
		return isTool(value)
	case "mergetool.layout":
		return isLayout(value)
	case "pull.twohead", "pull.octopus":
		return isStrategy(value)
	case "remote.uploadpack":
		return value == "git-upload-pack" || value == "git upload-pack"
	case "remote.receivepack":
		return value == "git-receive-pack" || value == "git receive-pack"
	case "http.sslkey", "http.sslcert":
		return !strings.Contains(value, ":") // no "pkcs11:"
	case "fetch.bundleuri", "bundle.uri":
		return !strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f })
	case "sendemail.smtpserver": // a host, no program
		return !strings.Contains(value, "/")
	case "http.sslkeytype", "http.sslcerttype":
		return slices.Contains([]string{"PEM", "DER", "P12"}, strings.ToUpper(value))
	}
	return false
}

// isTool reports whether a value chooses one of git's own tools by its name,
// or one whose command is another key's.
func isTool(value string) bool {
	return value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isLayout reports whether a value is how windows are laid out: four names,
// and what joins them (git-mergetool(1), vimdiff).
func isLayout(value string) bool {
	names := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("(),/+@ ", r) })
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains([]string{"LOCAL", "BASE", "REMOTE", "MERGED"}, name)
	})
}
