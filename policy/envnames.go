package policy

import "strings"

// credentialSuffixes, credentialWords and credentialNames are what the names
// of environment variables that hold secrets look like, in upper case. "_KEY"
// alone is no suffix: too many harmless names (GPG_KEY) end in it; nor is
// TOKEN a word (TOKENIZERS_PARALLELISM).
var (
	credentialPrefixes = []string{"AWS_", "AZURE_", "SECRET_"}
	credentialSuffixes = []string{
		"_TOKEN", "_SECRET", "_PAT", "_PASS", "_PWD", "_CREDENTIAL", "_CREDENTIALS", "_CREDS", "_AUTH", "_AUTHTOKEN",
		"_ACCESS_KEY", "_ACCESS_KEY_ID", "_SECRET_KEY", "_PRIVATE_KEY", "_SIGNING_KEY", "_ENCRYPTION_KEY", "_MASTER_KEY",
		"_DEPLOY_KEY", "_SSH_KEY", "_SERVICE_KEY", "_CONNECTION_STRING", "_DATABASE_URL", "_WEBHOOK_URL", "_COOKIE",
	}
	credentialWords = []string{"PASSWORD", "PASSWD", "PASSPHRASE", "API_KEY", "APIKEY", "_SECRET_"}
	credentialNames = []string{
		"TOKEN", "SECRET", "DATABASE_URL", "MYSQL_PWD", "SSHPASS", "DOCKER_AUTH_CONFIG", "REDIS_URL", "MONGODB_URI",
		"AMQP_URL", "SENTRY_DSN",
	}
)

// CredentialLike reports whether an environment variable's name looks like
// that of a secret (GITHUB_TOKEN, AWS_PROFILE, OPENAI_API_KEY, PGPASSWORD).
// Such a variable reaches a command only if the policy lists it.
func CredentialLike(name string) bool {
	upper := strings.ToUpper(name)
	return anyOf(credentialNames, upper, func(s, w string) bool { return s == w }) ||
		anyOf(credentialPrefixes, upper, strings.HasPrefix) ||
		anyOf(credentialSuffixes, upper, strings.HasSuffix) ||
		anyOf(credentialWords, upper, strings.Contains)
}

// loaderPrefixes and loaderNames change which code a program runs before its
// first line: the dynamic loader's and libc's own (ld.so(8), and the list
// that glibc drops for set-user-ID programs), shells' and runtimes' start-up
// hooks.
var (
	loaderPrefixes = []string{"LD_", "DYLD_", "MALLOC_", "BASH_FUNC_"}
	loaderNames    = []string{
		"GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH", "NIS_PATH", "NLSPATH",
		"RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "ZDOTDIR",
		"GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "PERL5OPT", "PERL5LIB", "PERLLIB", "PYTHONPATH", "PYTHONHOME",
		"PYTHONSTARTUP", "NODE_OPTIONS", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
	}
)

// LoaderVariable reports whether an environment variable can change the code
// that a program started with it runs. Such a variable of the caller never
// reaches bubblewrap, the stub or an engine's client; what the command itself
// gets is another matter.
func LoaderVariable(name string) bool {
	return anyOf(loaderNames, name, func(s, w string) bool { return s == w }) ||
		anyOf(loaderPrefixes, name, strings.HasPrefix)
}

func anyOf(words []string, name string, holds func(name, word string) bool) bool {
	for _, word := range words {
		if holds(name, word) {
			return true
		}
	}
	return false
}

// MatchEnvPattern reports whether an entry of env.drop names a variable: the
// name itself, or what starts with it where it ends in "*".
func MatchEnvPattern(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
