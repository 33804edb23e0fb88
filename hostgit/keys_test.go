package hostgit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/hostgit"
)

// conflict has a merge that stopped.
func (f *farm) conflict() {
	f.git("", "branch", "-m", "main")
	f.git("", "checkout", "-q", "-b", "other", "HEAD~1")
	f.write("file.txt", "three\n")
	f.git("", "commit", "-qam", "third")
	f.git("", "merge", "-q", "main")
}

// ssh stands for one that gets in at some host: it runs there, that is here,
// what it is told to.
func (f *farm) ssh() {
	f.hook("../far", "ssh")
	f.write("../far/ssh", "#!/bin/sh\nfor a; do last=$a; done\ncase $1 in -G) exit 0;; esac\nexec sh -c \"$last\"\n")
	f.env = append(f.env, "GIT_SSH_COMMAND="+filepath.Dir(f.top)+"/far/ssh")
	f.git("", "init", "-q", "--bare", "../far.git")
	f.git("", "remote", "add", "origin", "ssh://127.0.0.1"+filepath.Dir(f.top)+"/far.git")
}

// sets has a repository set some keys to the trap, or to a value.
func sets(pairs ...string) func(f *farm) {
	return func(f *farm) {
		for i := 0; i < len(pairs); i += 2 {
			f.git("", "config", pairs[i], strings.NewReplacer("TRAPPED", f.sprungTrap(), "TRAP", f.sprungTrap()+" </dev/null").Replace(pairs[i+1]))
		}
	}
}

// after does several things.
func after(steps ...func(f *farm)) func(f *farm) {
	return func(f *farm) {
		for _, step := range steps {
			step(f)
		}
	}
}

// env adds a variable to everybody's environment.
func env(variable string) func(f *farm) {
	return func(f *farm) { f.env = append(f.env, variable) }
}

func file(name, text string) func(f *farm) {
	return func(f *farm) { f.write(name, text) }
}

const asks = `alias.ask=!printf 'protocol=https\nhost=h.test\nusername=u\n\n' | git credential fill`

// overridden are the keys whose value plain git executes.
func overridden() map[string]attack {
	one := func(words ...string) [][]string { return [][]string{words} }
	editor := env("EDITOR=true")
	return map[string]attack{
		"remote.uploadpack":     {after((*farm).ssh, sets("remote.origin.uploadpack", "TRAP; git-upload-pack")), one("fetch"), "git_config"},
		"remote.receivepack":    {after((*farm).ssh, sets("remote.origin.receivepack", "TRAP; git-receive-pack")), one("push", "origin", "HEAD:refs/heads/new"), "git_config"},
		"core.editor":           {after(editor, sets("core.editor", "TRAP")), one("commit", "--amend"), ""},
		"sequence.editor":       {after(editor, sets("sequence.editor", "TRAP")), one("rebase", "-i", "HEAD~1"), ""},
		"core.sshCommand":       {sets("core.sshCommand", "TRAP", "remote.origin.url", "ssh://127.0.0.1:9/x"), one("fetch"), ""},
		"core.askPass":          {sets("core.askPass", "TRAPPED"), one("-c", asks, "ask"), ""},
		"credential.helper":     {sets("credential.helper", "!TRAP"), one("-c", asks, "ask"), ""},
		"credential.URL.helper": {sets("credential.https://h.test.helper", "!TRAP"), one("-c", asks, "ask"), ""},
		"gpg.program":           {sets("gpg.program", "TRAPPED"), one("commit", "-S", "--allow-empty", "-m", "x"), ""},
		"gpg.ssh.program":       {sets("gpg.format", "ssh", "user.signingKey", "/x", "gpg.ssh.program", "TRAPPED"), one("commit", "-S", "--allow-empty", "-m", "x"), ""},
		"gpg.ssh.defaultKey":    {sets("gpg.format", "ssh", "gpg.ssh.defaultKeyCommand", "TRAP"), one("commit", "-S", "--allow-empty", "-m", "x"), ""},
		"difftool.cmd":          {after(file("file.txt", "x\n"), sets("diff.tool", "x", "difftool.x.cmd", "TRAP")), one("difftool", "-y"), ""},
		"difftool.path":         {after(file("file.txt", "x\n"), sets("diff.tool", "opendiff", "difftool.opendiff.path", "TRAPPED")), one("difftool", "-y"), ""},
		"mergetool.cmd":         {after((*farm).conflict, sets("merge.tool", "x", "mergetool.x.cmd", "TRAP")), one("mergetool", "--no-prompt"), ""},
		"merge.driver":          {after((*farm).conflict, file(".git/info/attributes", "*.txt merge=x\n"), sets("merge.x.driver", "TRAP")), [][]string{{"reset", "-q", "--hard"}, {"merge", "main"}}, ""},
		"filter.clean":          {after(file(".gitattributes", "*.txt filter=x\n"), sets("filter.x.clean", "TRAP")), one("add", "--renormalize", "."), ""},
		"filter.process":        {after(file(".gitattributes", "*.txt filter=x\n"), sets("filter.x.process", "TRAP", "filter.x.required", "true")), one("add", "--renormalize", "."), ""},
		"filter.smudge":         {after(file(".gitattributes", "*.txt filter=x\n"), sets("filter.x.smudge", "TRAP")), one("checkout", "HEAD~1", "--", "file.txt"), ""},
		"submodule.update": {func(f *farm) {
			f.submodule("lib")
			f.git("lib", "checkout", "-q", "HEAD~1")
			sets("submodule.lib.update", "!TRAP")(f)
		}, one("submodule", "update"), ""},
		"trailer.command": {sets("trailer.x.key", "X", "trailer.x.command", "TRAP"), one("interpret-trailers", "file.txt"), ""},
		"trailer.cmd":     {sets("trailer.x.key", "X", "trailer.x.cmd", "TRAP"), one("interpret-trailers", "--trailer", "x=1", "file.txt"), ""},
		"tar.command":     {sets("tar.x.command", "TRAP"), one("archive", "--format=x", "HEAD"), ""},
		"man.cmd":         {sets("man.viewer", "x", "man.x.cmd", "TRAP"), one("help", "-m", "status"), ""},
		"browser.cmd":     {sets("browser.x.cmd", "TRAP"), one("web--browse", "--browser=x", "/x"), ""},
		"imap.tunnel":     {after(file("mbox", "From a\nFrom: a\nDate: b\nSubject: c\n\nx\n"), sets("imap.tunnel", "TRAP")), one("-c", "imap.folder=x", "-c", "alias.send=!git imap-send <mbox", "send"), ""},
	}
}

// TestStandsIn: git takes what stands in for a key, not what the repository
// sets, in whatever repository.
func TestStandsIn(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	stands := hostgit.Stands()
	for key := range stands {
		f.git("", "config", key, "evil")
	}
	c, err := hostgit.Prepare(t.Context(), f.top, []string{"config", "--list"}, f.env)
	must(t, err)
	for key, want := range stands {
		cmd := exec.Command(c.Path, "config", "--get", key)
		cmd.Dir, cmd.Env = f.top, c.Env
		out, err := cmd.Output()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", key, got, want, err)
		}
	}
}

// TestValues: of a key that is refused otherwise, a value passes that names
// something of git's own.
func TestValues(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	must(t, os.Remove(f.top+"/file.txt"))
	for _, c := range []struct {
		key, value string
		passes     bool
	}{
		{"pull.twohead", "ort", true},
		{"pull.octopus", "octopus", true},
		{"pull.twohead", "ort ./x", false},
		{"mergetool.vimdiff.layout", "(LOCAL,BASE,REMOTE)/MERGED + @MERGED", true},
		{"mergetool.vimdiff.layout", "LOCAL;x", false},
		{"remote.x.uploadpack", "git-upload-pack", true},
		{"remote.x.receivepack", "git-receive-pack", true},
		{"remote.x.receivepack", "git-receive-pack ", false},
		{"http.sslKey", "/home/me/key.pem", true},
		{"http.https://x.test.sslCert", "PKCS11:token=x", false},
		{"http.sslKeyType", "PEM", true},
		{"http.sslKeyType", "ENG", false},
		{"gc.recentObjectsHook", "x", false},
		{"gc.repackFilterTo", "/x", false},
		{"sendemail.tocmd", "scripts/maintainers", true},
		{"sendemail.smtpserver", "mail.example.test", true},
		{"sendemail.me.smtpserver", "/usr/sbin/sendmail", false},
		{"sendemail.smtpserveroption", "-C/x", false},
		{"sendemail.to", "a@example.test", true},
		{"fetch.bundleURI", "https://example.test/x", true},
		{"fetch.bundleURI", "https://example.test/x /home/me/y\nget z", false},
		{"bundle.x.uri", "y\tz", false},
	} {
		f.git("", "config", c.key, c.value)
		err := f.guarded("", "status")
		if (err == nil) != c.passes {
			t.Errorf("%s = %q: %v", c.key, c.value, err)
		}
		f.git("", "config", "--unset", c.key)
	}
}
