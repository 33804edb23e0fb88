package policy

import (
	"path"
	"strings"
)

// MovedCredential is an environment variable that moves what holds secrets, or
// what people typed, to another place.
type MovedCredential struct {
	Variable string
	// Names are what holds them in the directory that the variable names; none
	// for a variable that names the place itself.
	Names []string
	// Dir: the place is a directory as a whole.
	Dir bool
	// List: there may be several, with colons between them.
	List bool
	// Prefix may stand before the path.
	Prefix string
}

// MovedCredentials is the table of such variables. The caller may change what
// it gets.
func MovedCredentials() []MovedCredential {
	return []MovedCredential{
		{Variable: "GNUPGHOME", Dir: true},
		{Variable: "PASSWORD_STORE_DIR", Dir: true},
		{Variable: "AZURE_CONFIG_DIR", Dir: true},
		{Variable: "CLOUDSDK_CONFIG", Dir: true},
		{Variable: "GH_CONFIG_DIR", Dir: true},
		{Variable: "GLAB_CONFIG_DIR", Dir: true},
		{Variable: "CARGO_HOME", Names: []string{"credentials.toml", "credentials"}},
		{Variable: "DOCKER_CONFIG", Names: []string{"config.json"}},
		{Variable: "GRADLE_USER_HOME", Names: []string{"gradle.properties"}},
		{Variable: "KUBECONFIG", List: true},
		{Variable: "KRB5CCNAME", Prefix: "FILE:"},
		{Variable: "KRB5_KTNAME", Prefix: "FILE:"},
		{Variable: "AWS_SHARED_CREDENTIALS_FILE"},
		{Variable: "AWS_CONFIG_FILE"},
		{Variable: "GOOGLE_APPLICATION_CREDENTIALS"},
		{Variable: "NPM_CONFIG_USERCONFIG"},
		{Variable: "npm_config_userconfig"},
		{Variable: "PIP_CONFIG_FILE"},
		{Variable: "REGISTRY_AUTH_FILE"},
		{Variable: "NETRC"},
		{Variable: "PGPASSFILE"},
		{Variable: "RCLONE_CONFIG"},
		{Variable: "SOPS_AGE_KEY_FILE"},
		{Variable: "TF_CLI_CONFIG_FILE"},
		{Variable: "HISTFILE"},
		{Variable: "PYTHON_HISTORY"},
		{Variable: "NODE_REPL_HISTORY"},
		{Variable: "PSQL_HISTORY"},
		{Variable: "MYSQL_HISTFILE"},
		{Variable: "SQLITE_HISTORY"},
		{Variable: "REDISCLI_HISTFILE"},
		{Variable: "LESSHISTFILE"},
	}
}

// addMoved adds what the variables name. A value that isn't absolute is left
// out, as that of other variables is, and so are the kernel's file systems:
// /dev/null keeps no history.
func (t *denyTable) addMoved() {
	if t.ctx.Env == nil {
		return
	}
	for _, m := range MovedCredentials() {
		for _, place := range m.places(t.ctx.Env(m.Variable)) {
			t.addVariable(m, place)
		}
	}
}

func (t *denyTable) addVariable(m MovedCredential, place string) {
	names := m.Names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, n := range names {
		p := path.Join(place, n)
		if p == "/" { // said, not done
			t.denies = append(t.denies, DefaultDeny{Kind: KindCredential, Text: p, Path: p, Lift: LiftReadAllow, Variable: m.Variable, Dir: m.Dir})
			continue
		}
		n := len(t.denies)
		t.addOne(KindCredential, p, p)
		for i := n; i < len(t.denies); i++ {
			t.denies[i].Variable, t.denies[i].Dir = m.Variable, m.Dir
		}
	}
	if m.Variable == "GNUPGHOME" {
		for _, s := range homeSockets {
			if rest, ok := strings.CutPrefix(s, "~/.gnupg/"); ok && place != "/" {
				t.addOne(KindEscapeSocket, path.Join(place, rest), path.Join(place, rest))
			}
		}
	}
}

// places are the absolute paths in a value.
func (m MovedCredential) places(value string) []string {
	parts := []string{value}
	if m.List {
		parts = strings.Split(value, ":")
	}
	var out []string
	for _, p := range parts {
		p = strings.TrimPrefix(p, m.Prefix)
		if !path.IsAbs(p) || strings.ContainsRune(p, 0) {
			continue
		}
		p = path.Clean(p)
		kernel := false
		for _, dir := range []string{"/dev", "/proc", "/sys"} {
			kernel = kernel || p == dir || strings.HasPrefix(p, dir+"/")
		}
		if !kernel && len(out) < maxPlaces {
			out = append(out, p)
		}
	}
	return out
}

// maxPlaces bounds how many of a list count.
const maxPlaces = 16
