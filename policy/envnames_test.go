package policy_test

import (
	"testing"

	"pinfold/policy"
)

func TestCredentialLike(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"GITHUB_TOKEN": true, "GH_TOKEN": true, "NPM_TOKEN": true, "ANTHROPIC_API_KEY": true, "openai_api_key": true,
		"AWS_SECRET_ACCESS_KEY": true, "AWS_PROFILE": true, "PGPASSWORD": true, "DB_PASSWORD": true, "CLIENT_SECRET": true,
		"SECRET_KEY_BASE": true, "TOKEN": true, "SECRET": true, "GOOGLE_APPLICATION_CREDENTIALS": true, "MYSQL_PWD": true,
		"NPM_CONFIG__AUTHTOKEN": false, "npm_config__auth": true, "SSHPASS": true, "DATABASE_URL": true, "APP_DATABASE_URL": true,
		"CLAUDE_CODE_OAUTH_TOKEN": true, "GPG_PASSPHRASE": true,
		"PATH": false, "HOME": false, "PWD": false, "OLDPWD": false, "TOKENIZERS_PARALLELISM": false, "GPG_KEY": false,
		"SSH_AUTH_SOCK": false, "KEYBOARD": false, "LANG": false, "TERM": false, "": false, "GIT_ASKPASS": false,
		"MAX_TOKENS": false, "XDG_RUNTIME_DIR": false, "AWSOME": false,
	}
	tests["NPM_CONFIG__AUTHTOKEN"] = true // the underscore doubled
	for name, want := range tests {
		if got := policy.CredentialLike(name); got != want {
			t.Errorf("CredentialLike(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestLoaderVariable(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"LD_PRELOAD": true, "LD_LIBRARY_PATH": true, "LD_AUDIT": true, "DYLD_INSERT_LIBRARIES": true, "GCONV_PATH": true,
		"GLIBC_TUNABLES": true, "BASH_ENV": true, "ENV": true, "BASH_FUNC_x%%": true, "PYTHONSTARTUP": true, "NODE_OPTIONS": true,
		"GODEBUG": true, "PATH": false, "HOME": false, "OLD_PATH": false, "ENVIRONMENT": false, "LDAP": false, "": false,
	}
	for name, want := range tests {
		if got := policy.LoaderVariable(name); got != want {
			t.Errorf("LoaderVariable(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestMatchEnvPattern(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"FOO", "FOO", true},
		{"FOO", "FOOD", false},
		{"FOO", "foo", false},
		{"FOO_*", "FOO_", true},
		{"FOO_*", "FOO_BAR", true},
		{"FOO_*", "FOO", false},
		{"*", "ANY", true},
		{"F*O", "FOO", false},
	}
	for _, tt := range tests {
		if got := policy.MatchEnvPattern(tt.pattern, tt.name); got != tt.want {
			t.Errorf("MatchEnvPattern(%q, %q) = %v, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}
